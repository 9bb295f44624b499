"""``AccountingStorageEnforce``: which parts of the accounting Slurm enforces.

Without it, a user whom no account lists may run jobs, and limits and lists of QoS have no effect.
Source: slurm.conf(5).
"""

from __future__ import annotations

import msgspec

from rankd.core.slurm.reading import NOT_SET, Reading

_ASSOCIATIONS = {"associations", "limits", "qos", "safe", "wckeys", "all", "1"}
_LIMITS = {"limits", "safe", "all"}
_QOS = {"qos", "all"}
_WITHOUT_EFFECT = {"nojobs", "nosteps", "wckeys"}


class Enforcement(msgspec.Struct, frozen=True, kw_only=True):
    """``associations``: only users with an account may run jobs. ``qos``: only with a QoS that they may use."""

    associations: bool = False
    limits: bool = False
    qos: bool = False


NOTHING_KNOWN = Enforcement(associations=True, limits=True, qos=True)
"""Without a file that says so, everything in the accounting counts: no rule is lost."""


def read_enforcement(line: int, value: str, reading: Reading) -> Enforcement:
    """The parts that a value names."""
    words = {word.strip().lower() for word in value.split(",")} - NOT_SET - {"0"}
    if "safe" in words:
        reading.remark(line, "AccountingStorageEnforce safe: no effect in rankd, which has no limits of minutes")
    for word in sorted(words - _ASSOCIATIONS - _LIMITS - _QOS - _WITHOUT_EFFECT):
        reading.remark(line, f"AccountingStorageEnforce {word}: the import does not know this word; it has no effect")
    return Enforcement(associations=bool(words & _ASSOCIATIONS), limits=bool(words & _LIMITS), qos=bool(words & _QOS))

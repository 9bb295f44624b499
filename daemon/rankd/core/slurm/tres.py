"""Lists of trackable resources with a number each: ``CPU=1.0,Mem=0.25G,GRES/gpu=2.0``."""

from __future__ import annotations

import math
import re

from rankd.core.model.quantity import MEMORY, VCORE

_SUFFIXES = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_MEBIBYTE = 2.0**20
_ENTRY = re.compile(r"(?P<name>[^=]+)=(?P<number>[-+0-9.eE]+?)(?P<suffix>[KMGTP]?)", re.IGNORECASE)
_NAMES = {"cpu": VCORE, "mem": MEMORY}


def resource_of(tres: str) -> str | None:
    """The name of a TRES in rankd. None if rankd does not count it (energy, billing, node, licences).

    >>> resource_of("CPU"), resource_of("GRES/gpu:a100"), resource_of("node")
    ('vcore', 'gpu:a100', None)
    """
    name = tres.strip().lower()
    if name.startswith("gres/"):
        return name.removeprefix("gres/") or None
    return _NAMES.get(name)


def parse_tres(text: str) -> dict[str, tuple[float, str]]:
    """The number and its suffix for each TRES, with the name as written.

    Raises:
        ValueError: with the entry that can't be read.
    """
    found = {}
    for part in filter(None, (piece.strip() for piece in text.strip("\"'").split(","))):
        match = _ENTRY.fullmatch(part)
        try:
            number = float(match.group("number")) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or not math.isfinite(number):
            raise ValueError(f"'{part}' is not a TRES with a number; Slurm writes CPU=1.0")
        found[match.group("name").strip()] = (number, match.group("suffix").upper())
    return found


def amount_of(resource: str, number: float, suffix: str) -> int | None:
    """An amount in cores, bytes or pieces; None if it is not whole. Memory without a suffix is in MiB.

    >>> amount_of("memory", 4, "G") == 4 * 2**30, amount_of("memory", 512, "") == 512 * 2**20, amount_of("gpu", 2.5, "")
    (True, True, None)
    """
    amount = number * (_MEBIBYTE if resource == MEMORY and not suffix else _SUFFIXES[suffix])
    return int(amount) if amount.is_integer() else None


def per_unit(resource: str, weight: float, suffix: str) -> float:
    """A billing weight per unit of rankd.

    In rankd, memory is weighted per byte. In Slurm it is weighted per MiB, or per the unit of the suffix.

    >>> per_unit("memory", 0.25, "G") * 2**30, per_unit("memory", 0.25, "") * 2**20, per_unit("vcore", 1.0, "")
    (0.25, 0.25, 1.0)
    """
    if resource == MEMORY and not suffix:
        return weight / _MEBIBYTE
    return weight / _SUFFIXES[suffix]

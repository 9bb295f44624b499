"""The environment variables that sbatch reads (``SBATCH_ACCOUNT``, …), as options of sbatch. Pure.

Source: "Input environment variables" in sbatch(1) of Slurm 24.11. As with sbatch, an option without a value counts
wherever its variable is set, whatever the variable's value is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rankd.core.near_name import cut, near_name
from rankd.core.slurm.sbatch_line import Takes
from rankd.core.slurm.sbatch_option import OPTIONS, SPELLINGS, WITHOUT_EQUIVALENT, Translated

PREFIX = "SBATCH_"

_OTHER_NAME: Mapping[str, str] = {
    "ARRAY_INX": "array",
    "MEM_PER_NODE": "mem",
    "TIMELIMIT": "time",
    "DEBUG": "verbose",
    "REQ_SWITCH": "switches",
    "WAIT4SWITCH": "switches",
    "SEGMENT_SIZE": "segment",
}
"""Variables that are not named after their option."""

_SAME_NAME = """
account acctg-freq batch clusters constraint container container-id core-spec cpus-per-gpu delay-boot
distribution error exclusive export get-user-env gpu-bind gpu-freq gpus gpus-per-node gpus-per-task gres
gres-flags hint ignore-pbs input job-name mem-bind mem-per-cpu mem-per-gpu network no-kill no-requeue open-mode
output overcommit partition power profile qos requeue reservation signal spread-job thread-spec threads-per-core
tres-bind tres-per-task use-min-nodes wait wait-all-nodes wckey
"""

VARIABLES: Mapping[str, str] = {
    **{f"{PREFIX}{name.upper().replace('-', '_')}": name for name in _SAME_NAME.split()},
    **{f"{PREFIX}{suffix}": option for suffix, option in _OTHER_NAME.items()},
}
"""The option that each variable stands for, by its long name."""

_ONLY_WORD = {"exclusive": "exclusive"}
"""Values that mean the same as the option without a value."""


class Meant(NamedTuple):
    """Words of ``rankd submit`` that a variable stands for, and what a user should know about it."""

    words: list[str]
    remark: str = ""


def translate_variable(name: str, value: str) -> Meant:
    """What a variable ``SBATCH_…`` means. One that rankd can't honour has no words, and a remark that says why.

    >>> translate_variable("SBATCH_TIMELIMIT", "1:00:00").words
    ['--time=3600s']
    >>> translate_variable("SBATCH_RESERVATION", "maintenance").remark
    'SBATCH_RESERVATION has no effect: rankd has no reservations of nodes by name yet'

    Raises:
        ValueError: rankd has the option, but not this value.
    """
    option = VARIABLES.get(name)
    if option is None:
        near = near_name(name, VARIABLES)
        hint = f"; did you mean {near}?" if near else ""
        return Meant([], f"{cut(name)} has no effect: sbatch knows no such variable{hint}")
    if not value and SPELLINGS[option].takes is Takes.VALUE:
        return Meant([])
    try:
        words, remark = _translated(option, value)
    except ValueError as error:
        if option in WITHOUT_EQUIVALENT:
            return Meant([], f"{name} has no effect: {error}")
        raise ValueError(f"{name}: {error}; or unset it") from None
    effect = ":" if words else " has no effect:"
    return Meant(list(words), f"{name}{effect} {remark}" if remark else "")


def _translated(option: str, value: str) -> Translated:
    if SPELLINGS[option].takes is Takes.NOTHING or value.lower() == _ONLY_WORD.get(option):
        value = ""
    return OPTIONS[option].meaning(value)

"""Settings of ``slurm.conf`` that become one setting of rankd each. ``scontrol`` prints units after the numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from rankd.core.slurm.reading import NOT_SET, Reading
from rankd.core.slurm.setting_advice import ADVICE

Settings: TypeAlias = dict[str, float | str | bool | list[str] | None]

_NUMBER = re.compile(r"([0-9]{1,9})(?:\s*(?:sec|min))?")
CLUSTER_NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
"""As the setting takes it."""
_YES = frozenset({"yes", "y", "true", "1"})
_LARGEST_ARRAY = 4_194_304
_OF_JOBS = frozenset({"jobs", "all"})


def plain_setting(line: int, written: str, value: str, reading: Reading) -> Settings:
    """The settings that this one becomes; empty if it changes nothing. A value that can't be read is a problem."""
    if value.strip().lower() in NOT_SET:
        return {}
    return PLAIN[written.lower()](line, written, value.strip(), reading)


def _number(line: int, written: str, value: str, reading: Reading) -> int | None:
    match = _NUMBER.fullmatch(value)
    if match is None:
        reading.refuse(line, f"{written}: '{value[:60]}' is not a whole number")
    return int(match.group(1)) if match else None


def _seconds(key: str) -> Callable[[int, str, str, Reading], Settings]:
    """A number of seconds. Slurm's 0 (never) gets a remark."""

    def read(line: int, written: str, value: str, reading: Reading) -> Settings:
        number = _number(line, written, value, reading)
        if number == 0:
            reading.remark(line, f"{written} = 0: no equivalent in rankd; {key} has its default")
        return {key: float(number)} if number else {}

    return read


def _array(line: int, written: str, value: str, reading: Reading) -> Settings:
    number = _number(line, written, value, reading)
    if number == 0:
        reading.remark(line, f"{written} = 0: no equivalent in rankd: arrays are always possible")
    return {"admission.max_array_tasks": float(min(number, _LARGEST_ARRAY))} if number else {}


def _jobs(line: int, written: str, value: str, reading: Reading) -> Settings:
    number = _number(line, written, value, reading)
    return {"admission.max_pending": float(number)} if number else {}


def _cluster(line: int, written: str, value: str, reading: Reading) -> Settings:
    """Slurm's own names of clusters have small letters only."""
    if not CLUSTER_NAME.fullmatch(value):
        message = "site.name takes up to 63 letters, digits, dots, dashes and underscores; write one into rankd.toml"
        reading.remark(line, f"{written} {value[:200]}: {message}")
        return {}
    return {"site.name": value.lower()}


def _requeue(line: int, written: str, value: str, reading: Reading) -> Settings:
    return {"node.max_requeues": 0.0} if _number(line, written, value, reading) == 0 else {}


def _root(_line: int, _written: str, value: str, _reading: Reading) -> Settings:
    return {"admission.submitters": "users"} if value.lower() in _YES else {}


def _privacy(line: int, written: str, value: str, reading: Reading) -> Settings:
    words = {word.strip().lower() for word in value.split(",")} - NOT_SET
    if rest := sorted(words - _OF_JOBS):
        shown = ",".join(rest)
        message = 'privacy.jobs = "own" hides others\' jobs and shares; nodes, queues and accounts are seen by all'
        reading.remark(line, f"{written} {shown[:200]}: no equivalent in rankd: {message}")
    return {"privacy.jobs": "own"} if words & _OF_JOBS else {}


def _dependency(line: int, written: str, value: str, reading: Reading) -> Settings:
    """``DependencyParameters``, and ``SchedulerParameters``, which had this word before."""
    words = {word.strip().lower() for word in value.split(",")} - NOT_SET
    if rest := sorted(words - {"kill_invalid_depend"}):
        advice = ADVICE.get(written.lower(), "it has no effect")
        reading.remark(line, f"{written} {','.join(rest)[:200]}: no equivalent in rankd; {advice}")
    return {"scheduling.cancel_if_unmet": True} if "kill_invalid_depend" in words else {}


PLAIN: dict[str, Callable[[int, str, str, Reading], Settings]] = {
    "clustername": _cluster,
    "dependencyparameters": _dependency,
    "disablerootjobs": _root,
    "jobrequeue": _requeue,
    "killwait": _seconds("node.grace_s"),
    "maxarraysize": _array,
    "maxjobcount": _jobs,
    "privatedata": _privacy,
    "schedulerparameters": _dependency,
    "slurmdtimeout": _seconds("node.lost_after_s"),
}
"""The readers, by key in lower case."""

"""Slurm's times: ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``."""

from __future__ import annotations

import re

_TIME = re.compile(r"(?:(?P<days>[0-9]{1,6})-)?(?P<rest>[0-9]{1,9}(?::[0-9]{1,9}){0,2})")
_SECONDS = {True: (3600, 60, 1), False: (60, 1)}


def parse_duration(text: str) -> float:
    """The seconds of a time that Slurm wrote.

    >>> parse_duration("7-00:00:00"), parse_duration("14-0"), parse_duration("00:05:00"), parse_duration("90")
    (604800.0, 1209600.0, 300.0, 5400.0)

    Raises:
        ValueError: the text is not a time.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text.strip()}' is not a time; Slurm writes days-hours:minutes:seconds")
    parts = [int(part) for part in match.group("rest").split(":")]
    with_hours = match.group("days") is not None or len(parts) == 3
    units = _SECONDS[with_hours]
    seconds = sum(part * unit for part, unit in zip(parts, units, strict=False))
    return float(int(match.group("days") or 0) * 86400 + seconds)

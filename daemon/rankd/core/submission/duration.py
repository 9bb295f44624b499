"""Durations as people write them: Slurm's time limits, and numbers with a unit. Pure."""

from __future__ import annotations

import re

from rankd.core.errors import Refused

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86400
UNLIMITED = frozenset({"infinite", "unlimited", "-1"})

_CLOCK = r"[0-9]+(:[0-9]+){0,2}"
_SHORT_UNITS = {"s": 1, "m": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S}


def parse_duration(text: str) -> float | None:
    """Slurm's time limits: ``minutes``, ``m:s``, ``h:m:s``, ``d-h``, ``d-h:m``, ``d-h:m:s``.

    Also ``90s``, ``2h``. None for ``infinite`` and ``unlimited``.

    >>> [parse_duration(t) for t in ("90", "1:30", "1:00:00", "2-0", "1-2:3", "45s")]
    [5400.0, 90.0, 3600.0, 172800.0, 93780.0, 45.0]

    Raises:
        Refused: ``usage``: the text has none of these forms, or is 0.
    """
    word = text.strip().lower()
    if word in UNLIMITED:
        return None
    days, dash, clock = word.rpartition("-")
    if word[:-1].isdecimal() and word[-1] in _SHORT_UNITS:
        seconds = int(word[:-1]) * _SHORT_UNITS[word[-1]]
    elif re.fullmatch(_CLOCK, clock) and (days.isdecimal() or not dash):
        seconds = int(days or 0) * DAY_S + _clock_seconds(clock, HOUR_S if dash else 0)
    else:
        raise Refused("usage", f"'{text}' is not a length of time; write minutes, h:m:s, d-h:m:s, or 90s, 2h", "time")
    if not seconds:
        raise Refused("usage", f"'{text}': a time limit must be larger than 0; write unlimited for none", "time")
    return float(seconds)


def _clock_seconds(clock: str, first_unit: int) -> int:
    """``a[:b[:c]]``. After days, the first number is hours. Otherwise the forms are minutes, m:s and h:m:s."""
    parts = [int(part) for part in clock.split(":")]
    unit = first_unit or (HOUR_S if len(parts) == 3 else MINUTE_S)
    units = {HOUR_S: (HOUR_S, MINUTE_S, 1), MINUTE_S: (MINUTE_S, 1)}[unit]
    return sum(part * size for part, size in zip(parts, units, strict=False))

"""Durations as Slurm writes them, and instants in local time."""

from __future__ import annotations

import re
import time

from rankd.core.errors import Refused

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86400
UNLIMITED = frozenset({"infinite", "unlimited", "-1"})

_CLOCK = re.compile(r"[0-9]+(:[0-9]+){0,2}")
_UNITS = {"second": 1, "minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S}
_SHORT_UNITS = {"s": 1, "m": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S}
_OFFSET = re.compile(r"(?:now)?\s*\+\s*([0-9]+)\s*([a-z]*)")


def shown_duration(seconds: float | None) -> str:
    """As squeue's TIME: ``m:ss``, ``h:mm:ss``, ``d-hh:mm:ss``; UNLIMITED for None.

    >>> [shown_duration(s) for s in (5, 3723, 93784.9, None)]
    ['0:05', '1:02:03', '1-02:03:04', 'UNLIMITED']
    """
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(max(0, int(seconds)), DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, whole = divmod(rest, MINUTE_S)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{whole:02}"
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def parse_duration(text: str) -> float | None:
    """Slurm's time limits: ``minutes``, ``m:s``, ``h:m:s``, ``d-h``, ``d-h:m``, ``d-h:m:s``.

    Also ``90s``, ``2h``. None for ``infinite`` and ``unlimited``.

    >>> [parse_duration(t) for t in ("90", "1:30", "1:00:00", "2-0", "1-2:3", "45s")]
    [5400.0, 90.0, 3600.0, 172800.0, 93780.0, 45.0]

    Raises:
        Refused: ``usage``: of none of these forms, or 0.
    """
    word = text.strip().lower()
    if word in UNLIMITED:
        return None
    days, dash, clock = word.rpartition("-")
    if word[:-1].isdecimal() and word[-1] in _SHORT_UNITS:
        seconds = int(word[:-1]) * _SHORT_UNITS[word[-1]]
    elif _CLOCK.fullmatch(clock) and (days.isdecimal() or not dash):
        seconds = int(days or 0) * DAY_S + _clock_seconds(clock, HOUR_S if dash else 0)
    else:
        raise Refused("usage", f"'{text}' is no time; write minutes, h:m:s, d-h:m:s, or 90s, 2h", "time")
    if not seconds:
        raise Refused("usage", f"'{text}': a time limit must be larger than 0; leave it out for none", "time")
    return float(seconds)


def _clock_seconds(clock: str, first_unit: int) -> int:
    """``a[:b[:c]]``: hours first after days; else one number is minutes, two are m:s, three h:m:s."""
    parts = [int(part) for part in clock.split(":")]
    unit = first_unit or (HOUR_S if len(parts) == 3 else MINUTE_S)
    units = {HOUR_S: (HOUR_S, MINUTE_S, 1), MINUTE_S: (MINUTE_S, 1)}[unit]
    return sum(part * size for part, size in zip(parts, units, strict=False))


def shown_time(at: float | None) -> str:
    """An instant in local time, to the second; ``N/A`` for None."""
    return "N/A" if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


def parse_time(text: str, now: float) -> float:
    """The instant that ``--begin`` names: ``now+2hours``, ``16:30``, ``tomorrow``, ISO, ``@SECONDS``.

    Local time, unless the text has a zone of its own.

    Raises:
        Refused: ``usage``: of none of these forms.
    """
    word = text.strip().lower()
    if word == "now":
        return now
    if word.startswith("@") and word[1:].replace(".", "", 1).isdecimal():
        return float(word[1:])
    if match := _OFFSET.fullmatch(word):
        return now + int(match[1]) * _unit(match[2], text)
    return _calendar_time(word, text.strip(), now)


def _unit(name: str, text: str) -> int:
    sizes = _UNITS | {f"{unit}s": size for unit, size in _UNITS.items()} | _SHORT_UNITS | {"": 1}
    if name not in sizes:
        raise Refused("usage", f"'{text}': unknown unit '{name}'; use seconds, minutes, hours, days or weeks", "begin")
    return sizes[name]


def _calendar_time(word: str, text: str, now: float) -> float:
    from datetime import datetime, timedelta  # slow to import, rarely needed

    today = datetime.fromtimestamp(now).astimezone()
    clock = {"midnight": "00:00", "noon": "12:00", "teatime": "16:00"}.get(word, word)
    try:
        if word in ("today", "tomorrow"):
            day = today if word == "today" else today + timedelta(days=1)
            return day.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", clock):
            hour, minute, *second = (int(part) for part in clock.split(":"))
            day = today.replace(hour=hour, minute=minute, second=second[0] if second else 0, microsecond=0)
            return (day if day.timestamp() >= now else day + timedelta(days=1)).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = f"'{text}' is no time; write now+2hours, 16:30, tomorrow or 2030-01-31T08:00"
        raise Refused("usage", message, "begin") from None

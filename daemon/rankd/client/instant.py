"""Instants as Slurm's commands take them: ``16:30``, ``0131``, ``yesterday``, ``now-1hour``, ISO 8601."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, tzinfo

Direction = Literal["past", "future"]

UNITS_S = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 7 * 86400}
CLOCK_WORDS = {"midnight": (0, 0, 0), "noon": (12, 0, 0), "fika": (15, 0, 0), "teatime": (16, 0, 0)}
DAY_WORDS = {"yesterday": -1, "today": 0, "tomorrow": 1}
FORMS = "write 16:30, now-1hour, now+2days, yesterday, tomorrow, 01/31 or 2030-01-31T08:00"

_RELATIVE = re.compile(r"(?:now)?\s*(?P<sign>[+-])\s*(?P<count>[0-9]{1,9})\s*(?P<unit>[a-z]*)")
_CLOCK = re.compile(r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?(?:\s*(?P<half>am|pm))?")
_DAYS = tuple(
    re.compile(form)
    for form in (
        r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})",
        r"(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})(?:/(?P<year>[0-9]{4}|[0-9]{2}))?",
        r"(?P<month>[0-9]{1,2})\.(?P<day>[0-9]{1,2})(?:\.(?P<year>[0-9]{4}|[0-9]{2}))?",
        r"(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<year>[0-9]{2})?",
    )
)


class _Parts(NamedTuple):
    """The parts of a text: a clock time, a day as (year or None, month, day), or both."""

    clock: tuple[int, int, int] | None
    day: tuple[int | None, int, int] | None


def parse_time(text: str, now: float, direction: Direction, zone: tzinfo | None = None) -> float:
    """The instant that ``text`` names, in UTC seconds.

    A clock time without a day, and a day without a year, recur: ``future`` takes the next one, ``past`` the last
    one that is not after ``now``. A day without a clock time begins at 0:00. ``now+1day`` is 86,400 s from now.
    ``zone`` is the local time zone, the machine's if it is None. Of an hour that the end of summer time repeats,
    the nearest to ``now`` in the direction counts; a time that its beginning skips counts as an hour later.

    Raises:
        Refused: ``usage``: the text has none of Slurm's forms, or names a day or time that does not exist.
    """
    word = text.strip().lower()
    if word == "now":
        return now
    if re.fullmatch(r"@[0-9]{1,12}(\.[0-9]+)?", word):
        return float(word[1:])
    if match := _RELATIVE.fullmatch(word):
        return now + int(match["sign"] + match["count"]) * _unit_s(match["unit"], text)
    try:
        if (exact := _with_offset(text.strip())) is not None:
            return exact
        candidates = sorted(_candidates(_parts(word, _day_of(now, zone)), now, zone))
    except (ValueError, OverflowError):
        raise Refused("usage", f"'{text}' is not a time; {FORMS}", "time") from None
    if direction == "future":
        return next((at for at in candidates if at >= now), candidates[-1])
    return next((at for at in reversed(candidates) if at <= now), candidates[0])


def _unit_s(name: str, text: str) -> int:
    """The length of a unit in seconds. Names may be shortened: ``min``, ``h``, ``day``. No name means seconds."""
    for unit, seconds in UNITS_S.items():
        if unit.startswith(name):
            return seconds
    units = ", ".join(UNITS_S)
    raise Refused("usage", f"'{text}': unknown unit '{name}'; use one of {units}", "time")


def _with_offset(text: str) -> float | None:
    """ISO 8601 with an offset from UTC or a fraction of a second; None for other texts."""
    from datetime import datetime  # slow to import, rarely needed

    if not re.fullmatch(r"[0-9]{4}-.*T.*(?:\.[0-9]+|[Zz]|[+-][0-9:]{4,6})", text):
        return None
    return datetime.fromisoformat(text).timestamp()


def _day_of(at: float, zone: tzinfo | None) -> date:
    from datetime import datetime

    return datetime.fromtimestamp(at, zone).date()


def _parts(word: str, today: date) -> _Parts:
    """Days and clock times in either order, separated by blanks, ``T`` or ``-``; each at most once."""
    from datetime import timedelta

    clock: tuple[int, int, int] | None = None
    day: tuple[int | None, int, int] | None = None
    while word:
        matched = next((name for name in CLOCK_WORDS | DAY_WORDS if word.startswith(name)), "")
        if matched in CLOCK_WORDS and clock is None:
            clock = CLOCK_WORDS[matched]
        elif matched in DAY_WORDS and day is None:
            named = today + timedelta(days=DAY_WORDS[matched])
            day = (named.year, named.month, named.day)
        elif (found := _CLOCK.match(word)) and clock is None:
            matched, clock = found[0], _clock(found)
        elif (found := next(filter(None, (form.match(word) for form in _DAYS)), None)) and day is None:
            year = found["year"] and int(found["year"]) + (2000 if len(found["year"]) == 2 else 0)
            matched, day = found[0], (year or None, int(found["month"]), int(found["day"]))
        else:
            raise ValueError(word)
        word = _rest(word[len(matched) :])
    if clock is None and day is None:
        raise ValueError(word)
    return _Parts(clock, day)


def _rest(word: str) -> str:
    """The text after a day or a clock time, without the separator."""
    rest = re.sub(r"^(?:\s+(?=.)|[t-](?=[0-9]))", "", word)
    if rest == word != "":
        raise ValueError(word)
    return rest


def _clock(match: re.Match[str]) -> tuple[int, int, int]:
    hour = int(match["hour"])
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(match[0])
        hour = hour % 12 + (12 if match["half"] == "pm" else 0)
    return hour, int(match["minute"]), int(match["second"] or 0)


def _candidates(parts: _Parts, now: float, zone: tzinfo | None) -> Iterator[float]:
    """The instants that the parts may mean: days around today, years around this one, both of repeated hours."""
    from datetime import date, datetime, time, timedelta

    today = _day_of(now, zone)
    if parts.day is None:
        days = [today + timedelta(days=away) for away in (-1, 0, 1)]
    elif parts.day[0] is not None:
        days = [date(parts.day[0], *parts.day[1:])]
    else:
        days = [day for years in range(-8, 9) if (day := _day(today.year + years, *parts.day[1:])) is not None]
    for day in days:
        moment = datetime.combine(day, time(*(parts.clock or (0, 0, 0))), zone)
        first, second = moment.timestamp(), moment.replace(fold=1).timestamp()
        yield first
        if second > first:  # the hour is repeated; where it is skipped, the second one is earlier
            yield second
    if not days:
        raise ValueError(parts.day)


def _day(year: int, month: int, day: int) -> date | None:
    """The day. None for 29 February of a year without it."""
    from datetime import date

    try:
        return date(year, month, day)
    except ValueError:
        return None

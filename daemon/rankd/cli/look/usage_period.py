"""Periods of ``rankd acct --summary --per``: days, weeks and months of local time. Pure, but for the time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from datetime import date

LENGTHS = ("day", "week", "month")
MOST = 1_000


class Period(NamedTuple):
    """``name``: the first day of the calendar period. Its part that counts is from ``since`` until ``until``."""

    name: str
    since: float
    until: float


def periods(since: float, until: float, length: str) -> list[Period]:
    """The time between two instants (UTC seconds) in parts, without gaps. Weeks begin on Monday.

    The first and the last part may be shorter than their calendar period.

    Raises:
        Refused: ``usage``: there are more than :data:`MOST`.
    """
    from datetime import datetime  # slow to import, rarely needed

    first = _first_day(datetime.fromtimestamp(since).date(), length)  # noqa: DTZ006 - days of local time
    found: list[Period] = []
    while True:
        following = _next(first, length)
        begin = since if not found else found[-1].until
        end = datetime(following.year, following.month, following.day).timestamp()  # noqa: DTZ001
        found.append(Period(first.isoformat(), begin, min(end, until)))
        if end >= until:
            return found
        if len(found) == MOST:
            raise Refused("usage", f"that are more than {MOST} {length}s; give a later --since", "per")
        first = following


def _first_day(day: date, length: str) -> date:
    from datetime import timedelta

    if length == "month":
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if length == "week" else day


def _next(first: date, length: str) -> date:
    from datetime import timedelta

    if length == "month":
        return (first + timedelta(days=31)).replace(day=1)
    return first + timedelta(days=7 if length == "week" else 1)

"""Durations as Slurm prints them, and instants in local time."""

from __future__ import annotations

import time

from rankd.core.instant import shown_length

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86400


def shown_duration(seconds: float | None) -> str:
    """As squeue's TIME: ``m:ss``, ``h:mm:ss``, ``d-hh:mm:ss``; UNLIMITED for None.

    >>> [shown_duration(s) for s in (5, 3723, 93784.9, None)]
    ['0:05', '1:02:03', '1-02:03:04', 'UNLIMITED']
    """
    return "UNLIMITED" if seconds is None else shown_length(seconds)


def shown_time(at: float | None) -> str:
    """An instant in local time, to the second; ``N/A`` for None, and for what is no date."""
    try:
        return "N/A" if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):  # of a record that something else wrote
        return "N/A"


def in_local_time(text: str) -> str:
    """A text in which rankd has written instants in UTC, with these in local time."""
    import re
    from datetime import datetime  # slow to import, rarely needed

    found = re.split(r"\b([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)", text)
    try:
        found[1::2] = [shown_time(datetime.fromisoformat(instant).timestamp()) for instant in found[1::2]]
    except ValueError:  # it only looks like an instant
        return text
    return "".join(found)

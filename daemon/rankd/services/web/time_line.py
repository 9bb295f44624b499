"""A job's events as a line of its states over time. Pure; lengths are pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WIDTH = 900.0
LEAST = 2.0
"""The shortest part that can still be seen."""
OVER = frozenset({"completed", "failed", "timeout", "cancelled", "node_lost"})


class Part(NamedTuple):
    """One state: from when, for how many seconds, and where it is drawn."""

    state: str
    cause: str
    since: float
    seconds: float
    x: float
    width: float


def time_line(events: Sequence[Mapping[str, Any]], now: float) -> list[Part]:
    """The states of a job, oldest first. The last one goes on until now, unless the job has ended."""
    if not events:
        return []
    states = [event for place, event in enumerate(events) if not place or event["state"] != events[place - 1]["state"]]
    ends = [event["at"] for event in states[1:]] + [now]
    spans = [
        (event, max(0.0, end - event["at"]))
        for event, end in zip(states, ends, strict=True)
        if event["state"] not in OVER
    ]
    whole = sum(seconds for _, seconds in spans) or 1.0
    room, x, parts = WIDTH - LEAST * len(spans), 0.0, list[Part]()
    for event, seconds in spans:
        width = LEAST + max(0.0, room) * seconds / whole
        cause = event["cause"] or event["event"]
        parts.append(Part(event["state"], cause, event["at"], seconds, round(x, 1), round(width, 1)))
        x += width
    return parts

"""A job's events as a line of its states and of its attempts over time. Pure; lengths are pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rankd.core.model.job import FINAL_STATES

WIDTH = 900.0
LEAST = 2.0
"""The shortest part that can still be seen."""
OVER = frozenset(state.value for state in FINAL_STATES)


class Part(NamedTuple):
    """One state: from when, for how many seconds, and where it is drawn."""

    state: str
    cause: str
    since: float
    seconds: float
    x: float
    width: float


class Attempt(NamedTuple):
    """One time that the job got nodes. Times are UTC seconds; None: not yet. ``end``: how it ended, in one word.

    ``rank``, ``generation``: its place when it was chosen, and in which ranking.
    """

    number: int
    allocated_at: float
    started_at: float | None
    ended_at: float | None
    end: str
    cause: str
    nodes: list[str]
    rank: int | None
    generation: int | None
    x: float
    width: float


class Wait(NamedTuple):
    """One cause of the waiting until the first start, with all its seconds. ``css``: its colour's class."""

    cause: str
    seconds: float
    x: float
    width: float
    css: str


_AGAIN = {"requeue": "queued again", "take_back": "taken back"}
"""Events that end an attempt, but not the job."""


def attempts(events: Sequence[Mapping[str, Any]], parts: Sequence[Part]) -> list[Attempt]:
    """The attempts of a job, oldest first, drawn below the states of :func:`time_line` of the same events."""
    found = list[dict[str, Any]]()
    for event in events:
        if event["event"] == "allocate":
            detail = event["detail"] or {}
            found.append({"allocated_at": event["at"], "nodes": detail.get("nodes") or []} | {
                name: detail.get(name) for name in ("rank", "generation")})  # fmt: skip
        elif found and "ended_at" not in found[-1]:
            if event["event"] == "start":
                found[-1]["started_at"] = event["at"]
            elif event["event"] in _AGAIN or event["state"] in OVER:
                end = _AGAIN.get(event["event"]) or event["state"].replace("_", " ")
                found[-1] |= {"ended_at": event["at"], "end": end, "cause": event["cause"] or ""}
    drawn = list[Attempt]()
    for number, one in enumerate(found, start=1):
        own = [part for part in parts if one["allocated_at"] <= part.since < one.get("ended_at", math.inf)]
        own = [part for part in own if part.state != "pending"]
        x = own[0].x if own else WIDTH
        width = own[-1].x + own[-1].width - x if own else 0.0
        drawn.append(Attempt(
            number, one["allocated_at"], one.get("started_at"), one.get("ended_at"), one.get("end", ""),
            one.get("cause", ""), one["nodes"], one["rank"], one["generation"], x, round(width, 1),
        ))  # fmt: skip
    return drawn


def waits(waited: Sequence[tuple[str, float]], parts: Sequence[Part]) -> list[Wait]:
    """What a job waited for until its first start, drawn below the states of :func:`time_line` that it took.

    ``waited``: seconds by cause. Each cause is one part, however often it came; what took no second is left out.
    """
    before = list(itertools.takewhile(lambda part: part.state != "running", parts))
    room = before[-1].x + before[-1].width if before else 0.0
    whole = sum(seconds for _, seconds in waited if seconds >= 1)
    found, x = list[Wait](), 0.0
    for place, (cause, seconds) in enumerate(waited):
        if seconds >= 1:
            width = room * seconds / whole
            found.append(Wait(cause, seconds, round(x, 1), round(width, 1), f"f{place}"))
            x += width
    return found


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

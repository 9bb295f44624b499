"""What a node does over time: its running jobs to their time limits, and the reservations on it. Pure; lengths: pixels.

All nodes of a page have the same axis, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

WIDTH, LANE = 600.0, 14.0
LANES = 8
"""Rows of bars of one node. What does not fit is counted."""
LEAST_S, MOST_S = 600.0, 7 * 86_400.0
"""The shortest and the longest time that is shown ahead."""
PAST = 0.2
"""The part of the width that is before now."""
STEPS_S = (60, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800)
LEAST_WIDTH = 2.0


Jobs = Sequence[Mapping[str, Any]]


class Axis(NamedTuple):
    """``begin``, ``end``: UTC seconds at the sides. ``now_x``: where now is. ``ticks``: where, and seconds from now."""

    begin: float
    end: float
    now_x: float
    ticks: list[tuple[float, float]]

    def x(self, at: float) -> float:
        """Where a time is drawn; a time outside at the side."""
        return WIDTH * min(1.0, max(0.0, (at - self.begin) / (self.end - self.begin)))


class Bar(NamedTuple):
    """A job from ``x`` on. ``is_open``: its end is not known, or not shown."""

    job: Mapping[str, Any]
    kind: str
    x: float
    y: float
    width: float
    is_open: bool
    begins_at: float
    ends_at: float | None


class Plan(NamedTuple):
    """The bars of one node; how many were left out."""

    bars: list[Bar]
    height: float
    left_out: int


def spans(running: Jobs, reserved: Jobs, now: float) -> list[tuple[float, float | None]]:
    """From when to when the jobs have, or will have, their nodes (UTC seconds); None: without an end.

    A running job has ``started_at``, a reservation ``expected_start_at``.
    """
    begins = [(job["started_at"] or now, job) for job in running]
    begins += [(job["expected_start_at"], job) for job in reserved]
    return [
        (begin, None if job.get("time_limit_s") is None else begin + float(job["time_limit_s"]))
        for begin, job in begins
    ]


def axis(found: Iterable[tuple[float, float | None]], now: float) -> Axis:
    """The axis for jobs and reservations with these begins and ends (UTC seconds; None: not known)."""
    ends = [end for _, end in found if end is not None]
    ahead = min(MOST_S, max(LEAST_S, max(ends, default=now) - now))
    whole = ahead / (1 - PAST)
    begin, end = now - PAST * whole, now + ahead
    step = next((step for step in STEPS_S if ahead / step <= 6), STEPS_S[-1])
    steps = range(step, int(ahead) + 1, step)
    ticks = [(round(WIDTH * (now + seconds - begin) / whole, 1), float(seconds)) for seconds in steps]
    return Axis(begin, end, round(PAST * WIDTH, 1), ticks)


def plan(running: Jobs, reserved: Jobs, axis: Axis, now: float) -> Plan:
    """The bars of a node's jobs and reservations."""
    found = [("running", job, *span) for job, span in zip(running, spans(running, (), now), strict=True)]
    found += [("reserved", job, *span) for job, span in zip(reserved, spans((), reserved, now), strict=True)]
    found = sorted((one for one in found if one[2] < axis.end), key=lambda one: (one[2], one[1]["id"]))
    lanes, bars, left_out = list[float](), list[Bar](), 0
    for kind, job, begin, end in found:
        until = axis.end if end is None else max(end, now) if kind == "running" else end
        lane = next((place for place, free in enumerate(lanes) if free <= begin), len(lanes))
        if lane == LANES:
            left_out += 1
            continue
        lanes[lane : lane + 1] = [until]
        x = axis.x(begin)
        width = max(LEAST_WIDTH, axis.x(until) - x)
        is_open = end is None or end > axis.end
        bars.append(Bar(job, kind, round(x, 1), lane * LANE, round(width, 1), is_open, begin, end))
    return Plan(bars, len(lanes) * LANE, left_out)

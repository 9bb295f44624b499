"""When an array ends, and how: decided from the numbers of its tasks, however many it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rankd.core.change.job_change import Change
from rankd.core.model.job import ACTIVE_STATES, RUNS_ON, Event, State

_ENDS: Mapping[Event, str] = {
    Event.COMPLETE: "n_completed",
    Event.CANCEL: "n_cancelled",
    **dict.fromkeys((Event.FAIL, Event.TIME_OUT, Event.LOSE_NODE, Event.EXCEED_MEMORY), "n_failed"),
}
COUNTED = ("n_open", "n_active", "n_completed", "n_failed", "n_cancelled")
"""The numbers of an array that events of its tasks change."""


class Marks(NamedTuple):
    """What some events of tasks say of their whole array; times are in UTC seconds, None means none.

    The first start, the last end, and the highest exit status with its signal: 0 and 0 unless a task ended badly.
    """

    started_at: float | None = None
    ended_at: float | None = None
    exit_code: tuple[int, int] = (0, 0)


def marks_of(changes: Sequence[Change], arrays: Mapping[int, int]) -> dict[int, Marks]:
    """The marks of these changes of tasks, by array. ``arrays``: the array of each task."""
    found: dict[int, Marks] = {}
    for change in changes:
        array = arrays.get(change.job)
        if array is not None and (change.event is Event.START or change.event in _ENDS):
            found[array] = _marked(found.get(array, Marks()), change)
    return found


def _marked(known: Marks, change: Change) -> Marks:
    if change.event is Event.START:
        at = _time(change, "started_at")
        return known._replace(started_at=at if known.started_at is None else min(known.started_at, at))
    at = _time(change, "ended_at")
    code = (_number(change, "exit_status"), _number(change, "signal"))
    ended_at = at if known.ended_at is None else max(known.ended_at, at)
    return known._replace(ended_at=ended_at, exit_code=max(known.exit_code, code))


def _time(change: Change, name: str) -> float:
    return float(change.columns[name] or 0.0)


def _number(change: Change, name: str) -> int:
    return int(change.columns.get(name) or 0)


def counts_of(changes: Sequence[Change], arrays: Mapping[int, int]) -> dict[int, Counter[str]]:
    """What these changes of tasks add to the numbers of their arrays. ``arrays``: the array of each task."""
    sums: dict[int, Counter[str]] = {}
    for change in changes:
        array = arrays.get(change.job)
        if array is None:
            continue
        added = sums.setdefault(array, Counter())
        if change.event is Event.ALLOCATE:
            added["n_active"] += 1
        elif change.state in ACTIVE_STATES and change.event not in (Event.START, *RUNS_ON):
            added["n_active"] -= 1
        if change.event in _ENDS:
            added["n_open"] -= 1
            added[_ENDS[change.event]] += 1
    return sums


def array_end(completed: int, failed: int, cancelled: int) -> Event:
    """How an array ends whose tasks have all ended. ``failed``: in any other way than the other two."""
    if not failed and not cancelled:
        return Event.COMPLETE
    return Event.CANCEL if not completed and not failed else Event.FAIL


def end_of_array(array: int, event: Event, ended_at: float) -> Change:
    """The last event of an array without open tasks. ``ended_at``: when the last one ended."""
    cause = {Event.CANCEL: "cancel", Event.FAIL: "tasks did not complete"}.get(event)
    columns = {"ended_at": ended_at}
    return Change(job=array, state=State.RUNNING, event=event, actor="rankd", cause=cause, columns=columns)

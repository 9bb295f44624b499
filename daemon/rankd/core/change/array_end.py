"""When an array ends, and how: decided from the numbers of its tasks, however many it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rankd.core.change.job_change import Change
from rankd.core.model.job import ACTIVE_STATES, Event, State

_ENDS: Mapping[Event, str] = {
    Event.COMPLETE: "n_completed",
    Event.CANCEL: "n_cancelled",
    **dict.fromkeys((Event.FAIL, Event.TIME_OUT, Event.LOSE_NODE), "n_failed"),
}
COUNTED = ("n_open", "n_active", "n_completed", "n_failed", "n_cancelled")
"""The numbers of an array that events of its tasks change."""


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
        elif change.state in ACTIVE_STATES and change.event not in (Event.START, Event.IDLE):
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


def end_of_array(array: int, event: Event, now: float) -> Change:
    """The last event of an array, which none of its tasks is left to wait for."""
    cause = {Event.CANCEL: "cancel", Event.FAIL: "tasks did not complete"}.get(event)
    columns = {"ended_at": now}
    return Change(job=array, state=State.RUNNING, event=event, actor="rankd", cause=cause, columns=columns)

"""What is submitted again: an ended job, an ended array, or tasks of an array that have ended.

The old job keeps its final state. The new one is a submission like any other.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.array import ArraySpan, JobName
from rankd.core.model.index_set import EMPTY, IndexSet, check_ranges, common, without, written
from rankd.core.model.job import (
    BY_INDEX,
    FINAL_STATES,
    SINGLETON,
    URGENCY_DEFAULT,
    URGENCY_HOLD,
    Dependency,
    JobRequest,
    State,
)


class OldTasks(NamedTuple):
    """The tasks of an array. ``span``: the numbers of the array that they learn.

    ``all``: every index. ``open``: those that have not ended. ``unfinished``: those that ended, but did not complete;
    it is empty if the retry does not ask for it. ``unmet``: those that wait by index for a task that has not completed.
    """

    all: IndexSet
    span: ArraySpan
    limit: int | None = None
    open: IndexSet = EMPTY
    unfinished: IndexSet = EMPTY
    unmet: IndexSet = EMPTY


class OldJob(NamedTuple):
    """The record of the job, or of the array. ``request`` has the script, and the values after all updates.

    ``was_blocked``: a dependency of it was not met, or its begin time was not reached.
    """

    id: int
    user: str
    state: State
    request: JobRequest
    was_blocked: bool
    tasks: OldTasks | None = None


class Wish(NamedTuple):
    """What to submit again. ``failed``: only what did not complete. ``held``: the new job is held."""

    name: JobName
    failed: bool = False
    held: bool = False
    key: str | None = None


class Again(NamedTuple):
    """The request to submit, and the job that it repeats. ``span``: the array's numbers for its tasks."""

    request: JobRequest
    retry_of: int
    span: ArraySpan | None = None


def again(old: OldJob, wish: Wish) -> Again:
    """The new request.

    Conditions that were met are left out, except that a ``singleton`` waits again for earlier jobs of its name. A job
    that is held and waits is not cancelled if a dependency can't be met: it is held so that it can be changed. The
    urgency is the old one from 1 to 16, otherwise 16.

    Raises:
        Refused: ``unknown_job``, ``not_ended``, ``nothing_to_retry``, ``array_too_large``.
    """
    changes: dict[str, object] = {
        "user": None,
        "key": wish.key,
        "held": wish.held,
        "urgency": min(old.request.urgency, URGENCY_DEFAULT),
    }
    if old.request.urgency == URGENCY_HOLD:
        changes["urgency"] = URGENCY_DEFAULT
    indices = EMPTY
    if old.tasks is None:
        _check_single(old, wish)
    else:
        indices = _indices(old, old.tasks, wish)
        changes["array"] = written(indices) + ("" if old.tasks.limit is None else f"%{old.tasks.limit}")
    if not old.was_blocked:
        changes |= {"depends_on": _kept(old, indices), "begin_at": None}
    request = msgspec.structs.replace(old.request, **changes)
    if wish.held and request.depends_on:
        request = msgspec.structs.replace(request, cancel_if_unmet=False)
    return Again(request, old.id, None if old.tasks is None else old.tasks.span)


def _kept(old: OldJob, indices: IndexSet) -> list[Dependency]:
    """The dependencies of a job, or of these tasks, that are not over though nothing else blocked the old one."""
    waits = old.tasks is not None and bool(common(indices, old.tasks.unmet))
    return [one for one in old.request.depends_on if one.type == SINGLETON or (one.type == BY_INDEX and waits)]


def _check_single(old: OldJob, wish: Wish) -> None:
    if wish.name.indices:
        raise Refused("unknown_job", f"there is no job {wish.name}: job {old.id} is not an array", "id", status=404)
    if old.state not in FINAL_STATES:
        raise _not_ended(f"job {old.id} is {old.state}", str(old.id))
    if wish.failed and old.state is State.COMPLETED:
        raise _nothing(f"job {old.id} has completed")


def _indices(old: OldJob, tasks: OldTasks, wish: Wish) -> IndexSet:
    named = wish.name.indices
    if missing := without(named, tasks.all):
        name = JobName(old.id, missing)
        raise Refused("unknown_job", f"there is no task {_short(name)} of array {old.id}", "id", status=404)
    if not named and old.state not in FINAL_STATES:
        raise _not_ended(f"array {old.id} is {old.state}", str(old.id))
    wanted = named or tasks.all
    if still := common(wanted, tasks.open):
        raise _not_ended(f"task {_short(JobName(old.id, still))} has not ended", _short(wish.name))
    chosen = common(wanted, tasks.unfinished) if wish.failed else wanted
    if not chosen:
        raise _nothing(f"all tasks of {_short(wish.name)} have completed")
    check_ranges(chosen)
    return chosen


def _not_ended(what: str, name: str) -> Refused:
    message = f"{what}; a job can be submitted again once it has ended. Wait, or write `rankd cancel {name}` first"
    return Refused("not_ended", message, "id", status=409)


def _nothing(what: str) -> Refused:
    return Refused("nothing_to_retry", f"{what}; leave out --failed to submit it again anyway", "failed", status=409)


def _short(name: JobName) -> str:
    text = str(name)
    return text if len(text) <= 60 else f"{text[:60].rpartition(',')[0]},…]"

"""What would keep a job from starting if it were submitted now, as far as that is known without placing it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from rankd.core.admission.dependency import (
    BEGIN_TIME,
    DEPENDENCY,
    NEVER,
    Awaited,
    Progress,
    Standing,
    awaited,
    standing,
    state_of,
)
from rankd.core.instant import shown_instant
from rankd.core.model.array import shown_list
from rankd.core.model.index_set import EMPTY, IndexSet, count, written
from rankd.core.model.job import BY_INDEX, SINGLETON, AcceptedJob, Dependency

HELD = "held"
_CHANGE = "change that with `rankd update --dependency`, or cancel it"


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job would wait: the reason as ``rankd queue`` would show it, and the fact behind it."""

    reason: str
    reason_fact: str


def waits_of(job: AcceptedJob, progress: Mapping[Awaited, Progress], earlier: int | None, now: float) -> list[Wait]:
    """All that would keep this new job from starting.

    Args:
        job: after admission.
        progress: of the jobs that it depends on.
        earlier: a job of the same user and name that has not ended; None if there is none.
        now: UTC seconds.
    """
    found = []
    if job.held:
        found.append(Wait(reason=HELD, reason_fact="it asks to be held"))
    elif job.urgency == 0:
        found.append(Wait(reason=HELD, reason_fact="its urgency is 0"))
    found += [wait for one in job.request.depends_on for wait in _of_dependency(one, progress, earlier)]
    begin_at = job.request.begin_at
    if begin_at is not None and begin_at > now:
        found.append(Wait(reason=BEGIN_TIME, reason_fact=f"not before {shown_instant(begin_at)}"))
    return found


def never_starts(
    job: AcceptedJob, progress: Mapping[Awaited, Progress], unmet: Mapping[int, IndexSet]
) -> Iterator[str]:
    """Why this new job, or some of its tasks, can never start, in words for its user.

    ``unmet``: by awaited array, those of the job's indices whose counterparts there have ended without completing.
    """
    for one in job.request.depends_on:
        name = awaited(one)
        if name is None:
            continue
        if one.type == BY_INDEX:
            if tasks := unmet.get(name, EMPTY) if isinstance(name, int) else EMPTY:
                yield (
                    f"{_tasks_in_words(tasks)} can never start: aftercorr of array {name}, whose tasks of the same"
                    f" indices did not complete; {_CHANGE}"
                )
        elif (other := progress.get(name)) is not None and standing(one.type, other) is Standing.NEVER:
            yield f"the job can never start: {one.type} of job {name} ({state_of(other)}); {_CHANGE}"


def _tasks_in_words(tasks: IndexSet) -> str:
    listed = shown_list(written(tasks))
    return f"task {listed}" if count(tasks) == 1 else f"tasks {listed}"


def _of_dependency(one: Dependency, progress: Mapping[Awaited, Progress], earlier: int | None) -> Iterator[Wait]:
    if one.type == SINGLETON:
        if earlier is not None:
            yield Wait(reason=DEPENDENCY, reason_fact=f"singleton after job {earlier}")
        return
    name = awaited(one)
    other = None if name is None else progress.get(name)
    is_met = Standing.OPEN if other is None else standing(one.type, other)
    if is_met is not Standing.MET:
        # of an array that waits by index, the tasks with completed counterparts may still start
        reason = NEVER if is_met is Standing.NEVER and one.type != BY_INDEX else DEPENDENCY
        yield Wait(reason=reason, reason_fact=f"{one.type} of job {name} ({state_of(other)})")

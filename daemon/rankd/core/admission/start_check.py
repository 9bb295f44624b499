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
from rankd.core.model.job import BY_INDEX, SINGLETON, AcceptedJob, Dependency

HELD = "held"


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

"""Whether jobs have released resources, which is a reason for the scheduler to look for jobs to start.

Uses SQLAlchemy Core, although the scheduler asks at every wake-up with new events: as text it would save some µs.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import and_, bindparam, case, func, select

from rankd.core.model.job import Event, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import written
from rankd.store.engine.plan import newer
from rankd.store.schema.table import job_events, jobs

_FREES = written(
    Event.COMPLETE,
    Event.FAIL,
    Event.TIME_OUT,
    Event.CANCEL,
    Event.REQUEUE,
    Event.TAKE_BACK,
    Event.LOSE_NODE,
    Event.EXCEED_MEMORY,
)
_CHANGES_LIMIT = (job_events.c.event == Event.UPDATE.value, job_events.c.state == State.RUNNING.value)
_HAPPENED = select(
    func.count(case((job_events.c.event.in_(_FREES), 1))), func.count(case((and_(*_CHANGES_LIMIT), 1)))
).where(newer(job_events.c.id, bindparam("revision")))
"""It counts, so that no server reads all events until it finds one of these."""
_LIMITED = (
    select(jobs.c.allocation_id)
    .join_from(job_events, jobs, jobs.c.id == job_events.c.job_id)
    .where(
        newer(job_events.c.id, bindparam("revision")),
        *_CHANGES_LIMIT,
        jobs.c.allocation_id.is_not(None),
    )
)


class Happened(NamedTuple):
    """Whether an event may have released nodes or a quota, and whether one may have changed a running job's limit."""

    has_freed_room: bool
    changes_limits: bool


def with_other_limits(connection: Connection, revision: int) -> list[int]:
    """The allocations of running jobs whose time limits have changed after this job event."""
    return list(connection.execute(_LIMITED, {"revision": revision}).scalars())


def happened_since(connection: Connection, revision: int) -> Happened:
    """What the job events after this one have been."""
    return Happened(*(number > 0 for number in connection.execute(_HAPPENED, {"revision": revision}).one()))

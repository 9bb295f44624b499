"""Whether jobs have released resources, which is a reason for the scheduler to look for jobs to start.

Uses SQLAlchemy Core, although the scheduler asks at every wake-up: without news it takes 25 µs, as text 17 µs.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select

from rankd.core.model.job import Event, State
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import written
from rankd.store.engine.plan import most
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
_FREEING = (
    select(job_events.c.id)
    .where(job_events.c.id > bindparam("revision"), job_events.c.event.in_(_FREES))
    .limit(most(1))
)


_LIMITED = (
    select(jobs.c.allocation_id)
    .join_from(job_events, jobs, jobs.c.id == job_events.c.job_id)
    .where(
        job_events.c.id > bindparam("revision"),
        job_events.c.event == Event.UPDATE.value,
        job_events.c.state == State.RUNNING.value,
        jobs.c.allocation_id.is_not(None),
    )
)


def with_other_limits(connection: Connection, revision: int) -> list[int]:
    """The allocations of running jobs whose time limits have changed after this job event."""
    return list(connection.execute(_LIMITED, {"revision": revision}).scalars())


def has_freed_room(connection: Connection, revision: int) -> bool:
    """Whether any job event after this one may have released nodes or a quota."""
    return connection.execute(_FREEING, {"revision": revision}).first() is not None

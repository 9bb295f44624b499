"""Whether jobs have released resources, which is a reason for the scheduler to look for jobs to start.

Uses SQLAlchemy Core, although the scheduler asks at every wake-up: without news it takes 25 µs, as text 17 µs.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select

from rankd.core.model.job import Event
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import written
from rankd.store.engine.plan import most
from rankd.store.schema.table import job_events

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


def has_freed_room(connection: Connection, revision: int) -> bool:
    """Whether any job event after this one may have released nodes or a quota."""
    return connection.execute(_FREEING, {"revision": revision}).first() is not None

"""The events of a job, for an error that explains why another one is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import bindparam, func, literal, select

from rankd.core.errors import InvalidTransition, PastEvent
from rankd.core.model.array import shown_name
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import text_of
from rankd.store.schema.table import job_events, jobs

_OF = job_events.c
_VIA = func.coalesce(literal(" via ").concat(text_of(_OF.detail, "$.via")), "")
_EVENTS = (
    select(_OF.event, _OF.state, _OF.at, _OF.actor.concat(_VIA)).where(_OF.job_id == bindparam("job")).order_by(_OF.id)
)

_TASK = select(jobs.c.array_job, jobs.c.array_task).where(jobs.c.id == bindparam("job"), jobs.c.array_job.is_not(None))


def past_events(connection: Connection, job: int) -> list[PastEvent]:
    """The recorded events of a job, oldest first."""
    return [PastEvent(*row) for row in connection.execute(_EVENTS, {"job": job})]


def name_of_record(connection: Connection, job: int) -> str | None:
    """How people name a task that has this record; None for any other job."""
    row = connection.execute(_TASK, {"job": job}).one_or_none()
    return None if row is None else shown_name(job, row[0], row[1], None, None)


@contextmanager
def tells_story(connection: Connection) -> Iterator[None]:
    """Add the job's recorded events to an :class:`InvalidTransition` from the block."""
    try:
        yield
    except InvalidTransition as error:
        raise error.with_events(past_events(connection, error.job), name_of_record(connection, error.job)) from None

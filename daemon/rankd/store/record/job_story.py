"""The events of a job, for an error that explains why another one is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from rankd.core.errors import InvalidTransition, PastEvent

_EVENTS = (
    "SELECT event, state, at, actor || coalesce(' via ' || json_extract(detail, '$.via'), '')"
    " FROM job_events WHERE job_id = ? ORDER BY id"
)


def past_events(connection: Connection, job: int) -> list[PastEvent]:
    """The recorded events of a job, oldest first."""
    return [PastEvent(*row) for row in connection.exec_driver_sql(_EVENTS, (job,))]


@contextmanager
def tells_story(connection: Connection) -> Iterator[None]:
    """Add the job's recorded events to an :class:`InvalidTransition` from the block."""
    try:
        yield
    except InvalidTransition as error:
        raise error.with_events(past_events(connection, error.job)) from None

"""Job events that the relay has not published yet: their number, and the age of the oldest."""

from __future__ import annotations

from sqlalchemy import func, select

from rankd.store.engine.connection import Connection
from rankd.store.engine.plan import newer
from rankd.store.record.relay_mark import Mark
from rankd.store.schema.table import job_events, relay_marks
from rankd.wire.diag import RelayDiag


def relay_backlog(connection: Connection, now: float) -> RelayDiag:
    """The number of events, and the age of the oldest in seconds; ``now`` in UTC seconds."""
    published = select(func.coalesce(func.max(relay_marks.c.event_id), 0)).where(relay_marks.c.name == Mark.JOBS)
    waiting = select(func.count(), func.min(job_events.c.at)).where(newer(job_events.c.id, published.scalar_subquery()))
    events, first = connection.execute(waiting).one()
    return RelayDiag(events=events, lag_s=0.0 if first is None else max(now - first, 0.0))

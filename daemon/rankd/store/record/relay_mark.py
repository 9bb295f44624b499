"""How far events are published: for each kind, the id of the last event that the broker has acknowledged.

Text: SQLAlchemy Core has this statement only for each dialect by itself.
"""

from __future__ import annotations

from enum import StrEnum

from rankd.store.engine.connection import Connection

_MOVE = (
    "INSERT INTO relay_marks (name, event_id) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET event_id = excluded.event_id"
)


class Mark(StrEnum):
    """The kinds of events, named as their tables; the relay publishes them in this order."""

    NODES = "node_events"
    QUEUES = "queue_events"
    CONFIGURATIONS = "configurations"
    JOBS = "job_events"


def move_mark(connection: Connection, mark: Mark, event_id: int) -> None:
    """Record that all events of this kind up to this id are published."""
    connection.exec_driver_sql(_MOVE, (mark, event_id))

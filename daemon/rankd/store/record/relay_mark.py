"""How far events are published: for each kind, the id of the last event that the broker has acknowledged."""

from __future__ import annotations

from enum import StrEnum

from rankd.store.engine.connection import Connection
from rankd.store.engine.upsert import upsert
from rankd.store.schema.table import relay_marks


class Mark(StrEnum):
    """The kinds of events, named as their tables; the relay publishes them in this order."""

    NODES = "node_events"
    QUEUES = "queue_events"
    CONFIGURATIONS = "configurations"
    JOBS = "job_events"


def move_mark(connection: Connection, mark: Mark, event_id: int) -> None:
    """Record that all events of this kind up to this id are published."""
    upsert(connection, relay_marks, ["name"], [{"name": mark, "event_id": event_id}])

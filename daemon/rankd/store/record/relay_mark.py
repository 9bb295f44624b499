"""How far events are published: for each kind, the id of the last event that the broker has acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from sqlalchemy import func, select

from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_id
from rankd.store.engine.upsert import upsert
from rankd.store.schema.table import configurations, job_events, node_events, queue_events, relay_marks

MOST_AGAIN = 1_000_000
"""The most events of a kind that are published again."""


class Mark(StrEnum):
    """The kinds of events, named as their tables; the relay publishes them in this order."""

    NODES = "node_events"
    QUEUES = "queue_events"
    CONFIGURATIONS = "configurations"
    JOBS = "job_events"


def move_mark(connection: Connection, mark: Mark, event_id: int) -> None:
    """Record that all events of this kind up to this id are published."""
    upsert(connection, relay_marks, ["name"], [{"name": mark, "event_id": event_id}])


def move_marks_back(connection: Connection, since: float) -> int:
    """Let events be published again that happened at ``since`` (UTC seconds) or later. Returns how many they are."""
    marks = published_until(connection)
    again = 0
    for mark, table in _TABLES.items():
        before = connection.execute(select(func.max(table.c.id)).where(table.c.at < since)).scalar_one() or 0
        back = max(before, last_id(connection, str(mark)) - MOST_AGAIN)
        if back < marks.get(mark, 0):
            again += marks[mark] - back
            move_mark(connection, mark, back)
    return again


def published_until(connection: Connection) -> Mapping[Mark, int]:
    """The id of the last published event of each kind that has one."""
    return {Mark(name): id_ for name, id_ in connection.execute(select(relay_marks.c.name, relay_marks.c.event_id))}


_TABLES = {
    Mark.NODES: node_events,
    Mark.QUEUES: queue_events,
    Mark.CONFIGURATIONS: configurations,
    Mark.JOBS: job_events,
}

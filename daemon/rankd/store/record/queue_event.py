"""Events of queues: made, changed, removed; by the configuration, or by the first job that uses the queue."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

Snapshot = dict[tuple[str, str], tuple[object, ...]]
"""By (partition, path): whether the queue is configured, and its settings."""

CONFIGURATION = "configuration"
"""The actor of changes by a configuration."""

_QUEUES = (
    "SELECT partition, path, configured, is_leaf, policy, offset, sort_priority, sort_policy, factor, guaranteed, max,"
    " maxapplications FROM queues"
)
_INSERT = "INSERT INTO queue_events (partition, path, event, at, actor) VALUES (?, ?, ?, ?, ?)"


def snapshot(connection: Connection) -> Snapshot:
    """All queues as they are."""
    return {(row[0], row[1]): tuple(row[2:]) for row in connection.exec_driver_sql(_QUEUES)}


def note_changes(connection: Connection, before: Snapshot, now: float) -> None:
    """Record the differences from ``before``."""
    events = []
    for (partition, path), settings in snapshot(connection).items():
        old, there = before.get((partition, path)), settings[0]
        was_there = old is not None and old[0]
        if there and not was_there:
            events.append((partition, path, "made", now, CONFIGURATION))
        elif was_there and not there:
            events.append((partition, path, "removed", now, CONFIGURATION))
        elif there and settings != old:
            events.append((partition, path, "changed", now, CONFIGURATION))
    if events:
        connection.exec_driver_sql(_INSERT, events)


def note_made(connection: Connection, partition: str, paths: Iterable[str], actor: str, now: float) -> None:
    """Record queues that first use makes."""
    connection.exec_driver_sql(_INSERT, [(partition, path, "made", now, actor) for path in paths])

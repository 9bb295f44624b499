"""Events of queues: made, changed or removed, by the configuration or by the first job that uses the queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import insert, select

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import queue_events, queues

Snapshot = dict[tuple[str, str], tuple[object, ...]]
"""By (partition, path): whether the queue is configured, and its settings."""

CONFIGURATION = "configuration"
"""The actor of changes that a configuration causes."""

_QUEUES = select(
    queues.c.partition,
    queues.c.path,
    queues.c.configured,
    queues.c.is_leaf,
    queues.c.policy,
    queues.c.offset,
    queues.c.sort_priority,
    queues.c.sort_policy,
    queues.c.factor,
    queues.c.guaranteed,
    queues.c.max,
    queues.c.maxapplications,
)


def snapshot(connection: Connection) -> Snapshot:
    """All queues with their present settings."""
    return {(row[0], row[1]): tuple(row[2:]) for row in connection.execute(_QUEUES)}


def note_changes(connection: Connection, before: Snapshot, now: float) -> None:
    """Record the differences from ``before``."""
    changed = []
    for (partition, path), settings in snapshot(connection).items():
        old, there = before.get((partition, path)), settings[0]
        was_there = old is not None and old[0]
        if there and not was_there:
            changed.append((partition, path, "made"))
        elif was_there and not there:
            changed.append((partition, path, "removed"))
        elif there and settings != old:
            changed.append((partition, path, "changed"))
    _note(connection, changed, CONFIGURATION, now)


def note_made(connection: Connection, partition: str, paths: Iterable[str], actor: str, now: float) -> None:
    """Record queues that their first job makes."""
    _note(connection, [(partition, path, "made") for path in paths], actor, now)


def _note(connection: Connection, changed: Sequence[tuple[str, str, str]], actor: str, now: float) -> None:
    """Record events of (partition, path, event)."""
    rows = [
        {"partition": partition, "path": path, "event": event, "at": now, "actor": actor}
        for partition, path, event in changed
    ]
    if rows:
        connection.execute(insert(queue_events), rows)

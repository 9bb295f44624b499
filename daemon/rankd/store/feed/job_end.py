"""Whether jobs have released resources, which is a reason for the scheduler to look for jobs to start."""

from __future__ import annotations

from rankd.store.engine.connection import Connection

_FREEING = (
    "SELECT 1 FROM job_events WHERE id > ? AND event IN"
    " ('complete', 'fail', 'time_out', 'cancel', 'requeue', 'take_back', 'lose_node') LIMIT 1"
)


def has_freed_room(connection: Connection, revision: int) -> bool:
    """Whether any job event after this one may have released nodes or a quota."""
    return connection.exec_driver_sql(_FREEING, (revision,)).first() is not None

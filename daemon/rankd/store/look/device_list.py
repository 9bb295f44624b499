"""The devices of all nodes, and the jobs that hold them.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch

_DEVICES = """
SELECT node, "index", id, type, model, "group", memory, state, job, "user", since, taken_by, reason, drained_by
FROM device ORDER BY node, id"""


def devices(connection: Reader) -> list[Row]:
    """Devices by node and id. ``job`` and ``user`` are null for a device that no job holds."""
    return fetch(connection, _DEVICES)

"""The devices of all nodes, and the jobs that hold them.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch

_DEVICES = """
SELECT node, "index", id, type, model, "group", memory, state, job, "user", since, taken_by, reason, drained_by
FROM device ORDER BY node, id"""

_RECENT = """
SELECT u.node AS node, u.id AS id, u.recent_utilisation AS recent
FROM job_device u JOIN job j ON j.id = u.job
WHERE j.state IN ('allocated', 'running') AND u.recent_utilisation IS NOT NULL"""


def recent_use(connection: Reader) -> dict[tuple[str, str], float]:
    """Mean utilisation (0 to 1) in the last 10 minutes of the devices that jobs hold, by node and device."""
    return {(row["node"], row["id"]): row["recent"] for row in fetch(connection, _RECENT)}


def devices(connection: Reader) -> list[Row]:
    """Devices by node and id. ``job`` and ``user`` are null for a device that no job holds."""
    return fetch(connection, _DEVICES)

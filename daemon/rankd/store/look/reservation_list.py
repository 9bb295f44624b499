"""The reservations that the scheduler keeps: which job gets which nodes, and from when on at the latest.

SQL is text: the table has a few rows, one for each job for which room is kept.
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch

MOST = 500
_SQL = """SELECT j.id, j."user", j.name, j.time_limit_s, j."array", j.array_job, j.array_task,
    r.starts_at AS expected_start_at, r.nodes AS reserved_nodes
    FROM reservations r JOIN jobs j ON j.id = r.job_id WHERE j.state = 'pending' ORDER BY r.starts_at, j.id LIMIT ?"""


def reservations(connection: Reader) -> list[Row]:
    """The jobs with reservations, by their start; at most :data:`MOST`."""
    return fetch(connection, _SQL, [MOST])

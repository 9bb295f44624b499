"""Applications in the database: their beginning, and what their jobs' events make of their states.

Every change of a job that matters to its application changes the application in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from rankd.core.model.application import (
    COMPLETING_S,
    ENDED,
    STARTING_S,
    ApplicationEvent,
    ApplicationState,
    Life,
)

_LEFT = "SELECT 1 FROM jobs WHERE application_id = ? AND state IN ('pending', 'allocated', 'running') LIMIT 1"


def application_of(connection: Connection, queue: int, name: str | None, now: float) -> int | None:
    """The id of an application in a queue, made if this is its first job; None for a job without one."""
    if not name:
        return None
    query = "SELECT id FROM applications WHERE queue_id = ? AND name = ?"
    known = connection.exec_driver_sql(query, (queue, name)).scalar_one_or_none()
    if known is not None:
        return int(known)
    made = connection.exec_driver_sql(
        "INSERT INTO applications (queue_id, name, created_at, state_at, revision) VALUES (?, ?, ?, ?, ?)",
        (queue, name, now, now, _next_event(connection)),
    )
    return made.lastrowid


def applications_of(connection: Connection, jobs: Iterable[int]) -> dict[int, int]:
    """The applications of those of these jobs that have one."""
    query = (
        "SELECT j.id, j.application_id FROM json_each(?) w JOIN jobs j ON j.id = w.value"
        " WHERE j.application_id IS NOT NULL"
    )
    rows = connection.exec_driver_sql(query, (json.dumps(list(jobs)),))
    return {row[0]: row[1] for row in rows}


def follow(
    connection: Connection,
    events: Mapping[int, Sequence[ApplicationEvent]],
    now: float,
    failed: Iterable[int] = (),
) -> None:
    """Move applications on by what has happened to their jobs, in order.

    ``EMPTY`` counts only where really nothing is left; ``failed`` are those of which a job did not complete.
    """
    marked = [(id_,) for id_ in failed]
    if marked:
        connection.exec_driver_sql("UPDATE applications SET failed = 1 WHERE id = ?", marked)
    if not events:
        return
    changed, begun = [], []
    for id_, before in _lives(connection, list(events)).items():
        after = before
        for event in events[id_]:
            if event is not ApplicationEvent.EMPTY or _is_empty(connection, id_):
                after = after.after(event, now)
        if after != before:
            changed.append((after.state, after.since, id_))
        if before.state in ENDED and after.state not in ENDED:
            begun.append((after.created_at, _next_event(connection), id_))
    if changed:
        connection.exec_driver_sql("UPDATE applications SET state = ?, state_at = ? WHERE id = ?", changed)
    if begun:
        connection.exec_driver_sql(
            "UPDATE applications SET created_at = ?, revision = ?, failed = 0 WHERE id = ?", begun
        )


def _lives(connection: Connection, ids: Sequence[int]) -> dict[int, Life]:
    query = "SELECT a.id, a.state, a.state_at, a.created_at FROM json_each(?) w JOIN applications a ON a.id = w.value"
    rows = connection.exec_driver_sql(query, (json.dumps(list(ids)),)).all()
    return {id_: Life(ApplicationState(state), since, created) for id_, state, since, created in rows}


def _is_empty(connection: Connection, id_: int) -> bool:
    return connection.exec_driver_sql(_LEFT, (id_,)).first() is None


def _next_event(connection: Connection) -> int:
    """An id that no look at the events so far has seen."""
    row = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'job_events'").first()
    return (int(row[0]) if row else 0) + 1


_OVERDUE = """
SELECT id, state, state_at, created_at, failed FROM applications
WHERE state IN ('starting', 'completing') AND state_at <= ?"""
"""Written as in the partial index, else SQLite does not see that the index serves."""


def overdue_applications(connection: Connection, now: float) -> dict[int, ApplicationEvent]:
    """Those that have been starting or completing for long enough, with what that makes happen."""
    rows = connection.exec_driver_sql(_OVERDUE, (now - min(STARTING_S, COMPLETING_S),)).all()
    return {
        id_: ApplicationEvent.FAIL if failed else ApplicationEvent.TIMEOUT
        for id_, state, since, created, failed in rows
        if Life(ApplicationState(state), since, created).is_over_at(now)
    }


def save_waiting_applications(connection: Connection, generation: int, waiting: Iterable[int]) -> None:
    """The applications whose jobs a generation that is about to be stored does not rank; the last ones stay."""
    connection.exec_driver_sql(
        "DELETE FROM generation_waiting_applications WHERE generation >= ? OR generation <"
        " (SELECT max(generation) FROM generation_waiting_applications WHERE generation < ?)",
        (generation, generation),
    )
    rows = [(generation, id_) for id_ in sorted(waiting)]
    if rows:
        connection.exec_driver_sql("INSERT INTO generation_waiting_applications VALUES (?, ?)", rows)

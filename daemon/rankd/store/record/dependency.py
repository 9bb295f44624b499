"""Dependencies of jobs in the records: the progress of the awaited jobs, and which jobs wait for which."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.admission.dependency import BEGIN_TIME, Blocked, Progress, blocked_by
from rankd.core.model.job import Dependency, State

_DEPENDENCIES = msgspec.json.Decoder(list[Dependency])

_BLOCKED = """
SELECT j.id, j.held, j.begin_at, j.depends_on FROM json_each(?) w JOIN jobs j ON j.id = w.value
WHERE j.state = 'pending' AND j.blocked_by IS NOT NULL AND j.revision > ?"""

_WAITED_FOR = """
WITH RECURSIVE waited_for(id) AS (
    SELECT value FROM json_each(?)
    UNION SELECT json_extract(d.value, '$.job') FROM waited_for w
    JOIN jobs j ON j.id = w.id AND j.state = 'pending' AND j.depends_on IS NOT NULL, json_each(j.depends_on) d)
SELECT id FROM waited_for"""


def progress_of(connection: Connection, dependencies: Iterable[Dependency]) -> dict[int, Progress]:
    """The progress of the awaited jobs; unknown jobs are left out."""
    wanted = {dependency.job for dependency in dependencies}
    rows = connection.exec_driver_sql(
        "SELECT id, state, started_at FROM jobs WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps([job for job in wanted if isinstance(job, int)]),),
    )
    return {id_: Progress(State(state), started is not None) for id_, state, started in rows}


def known_jobs(connection: Connection, ids: Iterable[int]) -> set[int]:
    """Those of these ids that belong to jobs."""
    rows = connection.exec_driver_sql(
        "SELECT w.value FROM json_each(?) w JOIN jobs j ON j.id = w.value", (json.dumps(list(ids)),)
    )
    return {row[0] for row in rows}


def blocked_jobs(connection: Connection, jobs: Sequence[int], after: int = -1) -> list[Blocked]:
    """Those of these jobs that wait for other jobs or for a time, and have changed after the event ``after``."""
    rows = connection.exec_driver_sql(_BLOCKED, (json.dumps(jobs), after)).all()
    return [
        Blocked(job=id_, held=bool(held), begin_at=begin_at, depends_on=dependencies_of(depends_on))
        for id_, held, begin_at, depends_on in rows
    ]


def show_begin_time(connection: Connection, jobs: Iterable[int]) -> None:
    """Show for these jobs that they only wait for their begin time. This does not count as an event of the jobs."""
    connection.exec_driver_sql(
        "UPDATE jobs SET blocked_by = ? WHERE blocked_by IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
        (BEGIN_TIME, json.dumps(sorted(jobs))),
    )


def still_blocked(connection: Connection, jobs: Sequence[int], seen: int, now: float) -> set[int]:
    """Those of these jobs that have changed after the event ``seen`` and still wait for something."""
    blocked = blocked_jobs(connection, jobs, seen)
    if not blocked:
        return set()
    progress = progress_of(connection, (dependency for one in blocked for dependency in one.depends_on))
    return {one.job for one in blocked if blocked_by(one, progress, now) is not None}


def dependencies_of(stored: str | None) -> tuple[Dependency, ...]:
    """The dependencies in a job's record."""
    return tuple(_DEPENDENCIES.decode(stored)) if stored else ()


def waited_for(connection: Connection, jobs: Iterable[int | str]) -> set[int]:
    """These jobs, and, for each of them that is pending, all jobs for which it waits."""
    first = json.dumps([job for job in jobs if isinstance(job, int)])
    return {row[0] for row in connection.exec_driver_sql(_WAITED_FOR, (first,)) if isinstance(row[0], int)}

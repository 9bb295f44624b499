"""Why a job starts later than a range said that somebody was shown.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rankd.core.forecast.delay import SLACK_S, Taken, delay_causes
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import number_at

MOST_ALLOCATIONS = 20_000
"""The newest allocations before the job's start that are searched."""
MOST_EVENTS = 10_000
"""The newest events of nodes that are searched."""

_JOB = "SELECT id, partition, started_at, allocation_id FROM job WHERE id = ?"
_ESTIMATE = """SELECT made_at, early, late FROM start_estimates
    WHERE job_id = ? AND late IS NOT NULL AND late < ? ORDER BY made_at LIMIT 1"""
_LAST = "SELECT coalesce(max(id), 0) AS id FROM allocations"
_TAKEN = """
SELECT j.id AS job, j.submitted_at, j.nodes * j.vcore / 1000.0 AS cores, j.time_limit_s,
    coalesce(l.started_at, l.allocated_at) AS since, l.ended_at AS until
FROM allocations l JOIN jobs j ON j.id = l.job_id JOIN queues q ON q.id = j.queue_id
WHERE l.id > ? AND l.id < ? AND q.partition = ? AND l.job_id <> ? AND (l.ended_at IS NULL OR l.ended_at > ?)"""
_EVENTS = f"""
SELECT e.node, e.event, e.at, {number_at("n.capacity", "$.vcore")} / 1000.0 AS cores
FROM node_events e JOIN nodes n ON n.name = e.node
WHERE e.id > (SELECT coalesce(max(id), 0) - {MOST_EVENTS} FROM node_events) AND n.partition = ? AND e.at >= ?
ORDER BY e.id"""
_GONE = frozenset({"lost", "down", "drain", "draining"})
_BACK = frozenset({"up", "resume", "joined"})


def late_start(connection: Reader, job: int) -> Row | None:
    """The first estimate that was wrong, the delay and its causes; None if the job was in time, or nobody asked."""
    rows = fetch(connection, _JOB, [job])
    if not rows or rows[0]["started_at"] is None:
        return None
    started: float = rows[0]["started_at"]
    found = fetch(connection, _ESTIMATE, [job, started - SLACK_S])
    if not found:
        return None
    record, made_at, late = rows[0], found[0]["made_at"], found[0]["late"]
    taken = [*_jobs(connection, record, made_at, late), *_nodes(connection, record, made_at, started)]
    causes = [msgspec.to_builtins(cause) for cause in delay_causes(late, started, taken)]
    return found[0] | {"delay_s": started - late, "started_at": started, "causes": causes}


def _jobs(connection: Reader, record: Row, made_at: float, late: float) -> Iterator[Taken]:
    """Jobs that were submitted after the forecast, and earlier ones that ran on after their limits."""
    last = record["allocation_id"] or fetch(connection, _LAST)[0]["id"] + 1
    rows = fetch(connection, _TAKEN, [last - MOST_ALLOCATIONS, last, record["partition"], record["id"], late])
    for row in rows:
        until = float("inf") if row["until"] is None else row["until"]
        if row["submitted_at"] > made_at:
            yield Taken("later jobs", str(row["job"]), row["since"], until, row["cores"])
        elif row["time_limit_s"] is not None:
            yield Taken("longer runs", str(row["job"]), row["since"] + row["time_limit_s"], until, row["cores"])


def _nodes(connection: Reader, record: Row, made_at: float, started: float) -> Iterator[Taken]:
    """The times for which nodes of the partition took no jobs."""
    gone: dict[str, tuple[float, Any]] = {}
    for row in fetch(connection, _EVENTS, [record["partition"], made_at]):
        if row["event"] in _GONE:
            gone.setdefault(row["node"], (row["at"], row["cores"]))
        elif row["event"] in _BACK and row["node"] in gone:
            since, cores = gone.pop(row["node"])
            yield Taken("lost nodes", row["node"], since, row["at"], cores or 0.0)
    for node, (since, cores) in gone.items():
        yield Taken("lost nodes", node, since, started, cores or 0.0)

"""Deletes old jobs and events, a few at a time. The jobs' usage stays, summed by day, account and user.

A job is deleted once it has ended, has been charged and published, is too old for any service to need it, and no
waiting job depends on it. Its events, allocations and request are deleted with it. Its id is never used again, and its
key still leads to that id.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from sqlalchemy import Connection

from rankd.store.engine.last_id import last_id

PART = 250
"""Rows examined per transaction: a few milliseconds in which no other process can write."""
LEAST_AGE_S = 3_600.0
"""More recent jobs and events stay, whatever the settings, because services may still use them."""

_SPAN = """
SELECT coalesce(max(id), 0), max(submitted_at)
FROM (SELECT id, submitted_at FROM jobs WHERE id > ? ORDER BY id LIMIT ?)"""
_PUBLISHED = "(SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = 'job_events')"
_OLD = f"""
SELECT j.id FROM jobs j
WHERE j.id > ? AND j.id <= ? AND j.state NOT IN ('pending', 'allocated', 'running') AND j.ended_at < ?
    AND j.revision <= {_PUBLISHED}
    AND NOT EXISTS (SELECT 1 FROM allocations l WHERE l.job_id = j.id AND (l.charged = 0 OR l.ended_at IS NULL))"""
_NAMED = """
SELECT DISTINCT json_extract(d.value, '$.job') FROM jobs w, json_each(w.depends_on) d
WHERE w.state = 'pending' AND w.depends_on IS NOT NULL"""
_NAMED_SINCE = _NAMED.replace("jobs w", "jobs w INDEXED BY jobs_revision") + " AND w.revision > ?"

_IDS = "(SELECT value FROM json_each(?))"
_SUMS = f"""
INSERT INTO usage_days (day, account, "user", jobs, completed, core_s, charge)
SELECT date(j.ended_at, 'unixepoch'), a.account, j."user", count(*), sum(j.state = 'completed'),
    sum(coalesce((SELECT sum((l.ended_at - l.started_at) * json_array_length(l.nodes) * j.vcore / 1000.0)
        FROM allocations l WHERE l.job_id = j.id AND l.started_at IS NOT NULL), 0.0)),
    sum(coalesce((SELECT sum((l.ended_at - coalesce(l.started_at, l.ended_at)) * l.charge_rate)
        FROM allocations l WHERE l.job_id = j.id), 0.0))
FROM jobs j JOIN associations a ON a.id = j.association_id WHERE j.id IN {_IDS}
GROUP BY 1, 2, 3
ON CONFLICT (day, account, "user") DO UPDATE SET jobs = jobs + excluded.jobs,
    completed = completed + excluded.completed, core_s = core_s + excluded.core_s, charge = charge + excluded.charge"""
_KEYS = (
    'INSERT INTO old_keys ("user", "key", job_id) SELECT "user", "key", id FROM jobs'
    f' WHERE "key" IS NOT NULL AND id IN {_IDS} ON CONFLICT DO NOTHING'
)
_DELETIONS = (
    f"DELETE FROM job_events WHERE job_id IN {_IDS}",
    f"DELETE FROM allocation_nodes WHERE allocation_id IN (SELECT id FROM allocations WHERE job_id IN {_IDS})",
    f"DELETE FROM allocations WHERE job_id IN {_IDS}",
    f"DELETE FROM jobs WHERE id IN {_IDS}",
)

_OLD_EVENTS = f"""
DELETE FROM job_events WHERE id IN (
    SELECT e.id FROM job_events e JOIN jobs j ON j.id = e.job_id
    WHERE e.id > ? AND e.id <= ? AND e.id <= {_PUBLISHED} AND e.at < ?
        AND j.state NOT IN ('pending', 'allocated', 'running') AND j.ended_at < ?)"""
_EVENT_SPAN = "SELECT coalesce(max(id), 0), min(at) FROM (SELECT id, at FROM {table} WHERE id > ? ORDER BY id LIMIT ?)"
_OTHER_EVENTS = """
DELETE FROM {table} WHERE id > ? AND id <= ? AND at < ?
    AND id <= (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = '{table}')"""
EVENT_TABLES = ("job_events", "node_events", "queue_events")


class Part(NamedTuple):
    """The last id that a sweep has examined, None at its end; and the number of deleted rows."""

    last: int | None
    gone: int


class Named(NamedTuple):
    """The jobs that waiting jobs depend on, at the event ``revision``. Read once per sweep, since it takes long."""

    jobs: frozenset[int]
    revision: int


def named(connection: Connection) -> Named:
    """The jobs that waiting jobs depend on now."""
    jobs = frozenset(int(job) for (job,) in connection.exec_driver_sql(_NAMED))
    return Named(jobs, last_id(connection, "job_events"))


def prune_jobs(connection: Connection, after: int, before: float, kept: Named) -> Part:
    """Delete those of the next jobs after the id ``after`` that ended before the time ``before``."""
    last, submitted = connection.exec_driver_sql(_SPAN, (after, PART)).one()
    if submitted is None:
        return Part(None, 0)
    ids = [id_ for (id_,) in connection.exec_driver_sql(_OLD, (after, last, before)) if id_ not in kept.jobs]
    if ids:
        since = {int(job) for (job,) in connection.exec_driver_sql(_NAMED_SINCE, (kept.revision,))}
        ids = [id_ for id_ in ids if id_ not in since]
        text = json.dumps(ids)
        for statement in (_SUMS, _KEYS, *_DELETIONS):
            connection.exec_driver_sql(statement, (text,))
    return Part(last if submitted < before else None, len(ids))


def prune_events(connection: Connection, table: str, after: int, before: float) -> Part:
    """Delete those of the next events after the id ``after`` that are older than ``before``. Only of ended jobs."""
    last, first_at = connection.exec_driver_sql(_EVENT_SPAN.format(table=table), (after, PART)).one()
    if first_at is None or first_at >= before:
        return Part(None, 0)
    if table == "job_events":
        deleted = connection.exec_driver_sql(_OLD_EVENTS, (after, last, before, before))
    else:
        deleted = connection.exec_driver_sql(_OTHER_EVENTS.format(table=table), (after, last, before))
    return Part(last, deleted.rowcount)

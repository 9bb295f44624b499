"""The figures of the whole site for ``/metrics``: a few rows each, whatever the number of jobs.

SQL is text, and reads the views. Counting a million pending jobs takes seconds, so the asker keeps the answer for a
while, and ends a query that takes too long.
"""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.change.node_action import HEALTH_CHECK, UNFIT
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.look.service_list import NODE_UNHEARD_S

_TASKS = 'sum(CASE WHEN j."array" IS NULL THEN 1 ELSE coalesce(a.n_pending, 0) END) AS jobs'
"""A record stands for one job, or for the pending tasks of an array."""

_JOBS = f"""SELECT j.state, j.queue, coalesce(j.reason, '') AS reason, {_TASKS}
FROM job j LEFT JOIN arrays a ON a.job_id = j.id
WHERE j.state IN ('pending', 'allocated', 'running') GROUP BY j.state, j.queue, coalesce(j.reason, '')"""

_USERS = f"""SELECT j."user", {_TASKS} FROM jobs j LEFT JOIN arrays a ON a.job_id = j.id
WHERE j.state = 'pending' GROUP BY j."user" ORDER BY jobs DESC, j."user" LIMIT ?"""

_NODES = "SELECT state, count(*) AS nodes, min(heartbeat_at) AS oldest FROM nodes GROUP BY state"
_SILENT = "SELECT count(*) AS nodes FROM nodes WHERE state IN ('up', 'draining') AND heartbeat_at < ?"
_DRAINED = f"""SELECT CASE drained_by WHEN '{HEALTH_CHECK}' THEN '{HEALTH_CHECK}' WHEN '{UNFIT}' THEN 'rankd'
    ELSE 'administrator' END AS who, count(*) AS nodes FROM nodes WHERE drained_by IS NOT NULL GROUP BY who"""
_DEVICES = """SELECT type, coalesce(model, '') AS model, state, CASE WHEN job IS NULL THEN 0 ELSE 1 END AS held,
    count(*) AS devices FROM device GROUP BY type, coalesce(model, ''), state, held"""
_OUTBOX = """SELECT count(*) AS events, min(at) AS first FROM job_events
WHERE id > (SELECT coalesce(max(event_id), 0) FROM relay_marks WHERE name = 'job_events')"""
_NOTIFICATIONS = "SELECT count(*) AS waiting, min(first_at) AS first FROM notifications WHERE state = 'waiting'"
_ADAPTERS = "SELECT name, state, read_at FROM adapters ORDER BY name"
_NEWEST = "SELECT number, ranked_at, made_at, failures FROM generations ORDER BY number DESC LIMIT 1"
_FULL = "SELECT max(ranked_at) AS at FROM generations WHERE kind = 'full'"
_ROLES = "SELECT name, epoch, alive_at, resigned_at FROM roles ORDER BY name"


class SiteRows(NamedTuple):
    """Rows of each kind. ``users``: the pending jobs of the users with most of them; empty if they are not shown."""

    jobs: list[Row]
    users: list[Row]
    nodes: list[Row]
    silent: int
    drained: list[Row]
    devices: list[Row]
    outbox: Row
    notifications: Row
    adapters: list[Row]
    generation: Row | None
    full_pass_at: float | None
    roles: list[Row]


def site_figures(connection: Reader, most_users: int) -> SiteRows:
    """All of them. ``most_users`` 0: no user is named.

    The intake records the reports of nodes, so a node's silence is measured up to the intake's last sign of life.
    """
    roles = fetch(connection, _ROLES)
    alive_at = next((row["alive_at"] for row in roles if row["name"] == "intake"), None)
    return SiteRows(
        jobs=fetch(connection, _JOBS),
        users=fetch(connection, _USERS, [most_users]) if most_users else [],
        nodes=fetch(connection, _NODES),
        silent=fetch(connection, _SILENT, [(alive_at or 0.0) - NODE_UNHEARD_S])[0]["nodes"],
        drained=fetch(connection, _DRAINED),
        devices=fetch(connection, _DEVICES),
        outbox=fetch(connection, _OUTBOX)[0],
        notifications=fetch(connection, _NOTIFICATIONS)[0],
        adapters=fetch(connection, _ADAPTERS),
        generation=next(iter(fetch(connection, _NEWEST)), None),
        full_pass_at=fetch(connection, _FULL)[0]["at"],
        roles=roles,
    )

"""The allocations of a job on its nodes, with the files that it wrote: what a session is about.

SQL is text: the intake runs it in its threads for looking requests, as it does with :mod:`.job_detail`.
"""

from __future__ import annotations

import msgspec

from rankd.core.errors import Refused
from rankd.core.session.attempt import JobRuns, NodeNow, NodeRun
from rankd.store.engine.reading import Reader, fetch
from rankd.store.engine.word import value_at
from rankd.store.look.job_name import record_of

_REQUEST = "coalesce(t.request, j.request)"
_MODE, _INTERACTIVE = (value_at(_REQUEST, path) for path in ("$.open_mode", "$.interactive"))
_JOB = f"""SELECT j.id, j."user", j.state, {_MODE} AS mode, {_INTERACTIVE} IS NOT NULL AS interactive,
        (SELECT coalesce((SELECT min(s.array_task) FROM jobs s WHERE s.array_job = a.job_id), a.first)
            FROM arrays a WHERE a.job_id = j.id) AS first_task
    FROM jobs j LEFT JOIN array_requests t ON t.id = j.request_id WHERE j.id = ?"""
_REASON = "SELECT reason FROM job WHERE id = ?"
_RUNS = """SELECT n.allocation_id AS allocation, n.node, n.started_at, n.ended_at, n.stdout, n.stderr, l.nodes AS chosen
    FROM allocations l JOIN allocation_nodes n ON n.allocation_id = l.id WHERE l.job_id = ? ORDER BY l.id"""
_NODE = "SELECT state, heartbeat_at FROM nodes WHERE name = ?"


def job_runs(connection: Reader, name: int | str) -> JobRuns:
    """A job and its allocations, the oldest first.

    Raises:
        Refused: ``unknown_job``, ``bad_job_id``, ``bad_array``.
    """
    found = record_of(connection, name)
    rows = fetch(connection, _JOB, [found.job])
    if not rows:
        raise Refused("unknown_job", f"there is no job {name}", "id", status=404)
    job, runs, order = rows[0], list[NodeRun](), list[tuple[int, int]]()
    for row in fetch(connection, _RUNS, [found.job]):
        nodes = msgspec.json.decode(row.pop("chosen"), type=list[str])
        order.append((row["allocation"], nodes.index(row["node"]) if row["node"] in nodes else len(nodes)))
        runs.append(NodeRun(**row))
    waits = not any(run.started_at is not None for run in runs)
    reasons = fetch(connection, _REASON, [found.job]) if waits else []
    return JobRuns(
        name=name,
        job=found.job,
        owner=job["user"],
        state="cancelled" if found.is_cancelled else "pending" if found.task is not None else job["state"],
        first_task=job["first_task"] if found.task is None else None,
        appends=job["mode"] in ("append", '"append"'),
        interactive=bool(job["interactive"]),
        runs=[run for _, run in sorted(zip(order, runs, strict=True), key=lambda pair: pair[0])],
        reason=reasons[0]["reason"] if reasons else None,
    )


def node_now(connection: Reader, node: str) -> NodeNow | None:
    """A node's state and when its agent was last heard (UTC seconds); None if there is no such node."""
    rows = fetch(connection, _NODE, [node])
    return NodeNow(rows[0]["state"], rows[0]["heartbeat_at"]) if rows else None

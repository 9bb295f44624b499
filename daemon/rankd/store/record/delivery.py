"""Allocations on their way to their nodes: requested ones, ones to end, and overdue ones.

A node's agent requests its allocations. Each allocation in the answer is recorded as taken in the same transaction. So
an allocation that was withdrawn meanwhile is never sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.admission.job_size import MAX_JOB_BYTES
from rankd.core.model.delivery import NOT_TAKEN, Newest, Waiting
from rankd.core.model.node import NodeState
from rankd.core.model.node_holder import Agent
from rankd.core.model.report import Report
from rankd.store.record.node_action import drain_undrained
from rankd.store.record.report import take_reports
from rankd.wire.message import StartOrder, Taken

MOST_STARTS = 500
"""Starts in one answer. The agent records them before it requests more."""
AROUND_BYTES = 1_000
"""The approximate bytes of a start without its request and nodes."""
MOST_CANCELS = 10_000

_PRESENT = f"('{NodeState.UP}', '{NodeState.DRAINING}')"
_UNTAKEN = "p.taken_at IS NULL AND p.ended_at IS NULL"
_TO_END = "l.cancel IS NOT NULL AND l.ended_at IS NULL"

_STARTS = f"""
SELECT l.id, l.job_id, l.nodes, l.resources, l.cancel, j."user", j.name, j.request
FROM allocation_nodes p CROSS JOIN allocations l ON l.id = p.allocation_id CROSS JOIN jobs j ON j.id = l.job_id
WHERE p.node = ? AND {_UNTAKEN} ORDER BY p.allocation_id LIMIT {MOST_STARTS + 1}"""
_KNOWN = """
SELECT l.id, l.job_id, p.started_at IS NOT NULL
FROM allocations l CROSS JOIN allocation_nodes p ON p.allocation_id = l.id AND p.node = ?
WHERE l.ended_at IS NULL AND p.taken_at IS NOT NULL AND p.ended_at IS NULL ORDER BY l.id"""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request of an agent. ``known``: the allocations that it runs or still has to report; None: do not compare."""

    node: str
    agent: str
    known: frozenset[int] | None
    instance: str = ""


def waiting_nodes(connection: Connection) -> dict[str, Newest]:
    """Nodes for which allocations, or ends of allocations, wait."""
    starts = connection.exec_driver_sql(
        f"SELECT p.node, max(p.allocation_id) FROM allocation_nodes p WHERE {_UNTAKEN} GROUP BY p.node"
    )
    waiting: dict[str, Newest] = {node: (newest, 0) for node, newest in starts}
    for node, ids in _ends(connection).items():
        waiting[node] = (waiting.get(node, (0, 0))[0], ids[-1])
    return waiting


def _ends(connection: Connection) -> dict[str, list[int]]:
    """The allocations that each node has taken and has to end, ascending."""
    ends: dict[str, list[int]] = {}
    rows = connection.exec_driver_sql(
        "SELECT p.node, l.id FROM allocations l CROSS JOIN allocation_nodes p ON p.allocation_id = l.id"
        f" WHERE {_TO_END} AND p.taken_at IS NOT NULL AND p.ended_at IS NULL ORDER BY l.id"
    )
    for node, id_ in rows:
        ends.setdefault(node, []).append(id_)
    return ends


def give(connection: Connection, asks: Sequence[Ask], max_requeues: int, now: float) -> list[Taken | None]:
    """The allocations that each agent has to start and to end; None if an agent does not represent its node.

    If an allocation has to end and was not taken, it ends here without having started. If it was taken but the agent
    does not know it, it is sent again if it never started; otherwise it is lost.
    """
    agents = _agents(connection, [ask.node for ask in asks])
    reports: list[tuple[str, Report]] = []
    given: list[tuple[float, int, str]] = []
    answers: list[Taken | None] = []
    ends = _ends(connection)
    for ask in asks:
        holder = agents.get(ask.node)
        if holder is None or holder.name != ask.agent or not holder.is_same(_agent(ask)):
            answers.append(None)
            continue
        if ask.known is not None:
            reports += _compare(connection, ask.node, ask.known, now)
        starts, over, has_more = _starts(connection, ask.node)
        given += [(now, start.allocation, ask.node) for start in starts]
        reports += [(ask.node, _end(id_, job, "cancel", now)) for id_, job in over]
        cancels = ends.get(ask.node, [])[:MOST_CANCELS]
        answers.append(Taken(starts=starts, cancels=cancels, more=has_more))
    if given:
        connection.exec_driver_sql(
            "UPDATE allocation_nodes SET taken_at = ? WHERE allocation_id = ? AND node = ?", given
        )
    if reports:
        take_reports(connection, reports, max_requeues, now)
    return answers


def _agent(ask: Ask) -> Agent:
    return Agent(name=ask.agent, instance=ask.instance)


def _agents(connection: Connection, nodes: Sequence[str]) -> dict[str, Agent]:
    rows = connection.exec_driver_sql(
        f"SELECT name, agent, coalesce(instance, '') FROM nodes WHERE state IN {_PRESENT}"
        " AND name IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    )
    return {node: Agent(name=name, instance=instance) for node, name, instance in rows}


def _compare(connection: Connection, node: str, known: frozenset[int], now: float) -> list[tuple[str, Report]]:
    """Allocations that the agent should know but does not. Sent again if they never started, otherwise lost."""
    missing = [row for row in connection.exec_driver_sql(_KNOWN, (node,)).all() if row[0] not in known]
    if again := [(id_, node) for id_, _, started in missing if not started]:
        connection.exec_driver_sql(
            "UPDATE allocation_nodes SET taken_at = NULL WHERE allocation_id = ? AND node = ?", again
        )
    return [(node, _end(id_, job, "lost", now)) for id_, job, started in missing if started]


def _starts(connection: Connection, node: str) -> tuple[list[StartOrder], list[tuple[int, int]], bool]:
    """The starts; the allocations that end without having started; and whether more wait than fit into an answer."""
    starts: list[StartOrder] = []
    over: list[tuple[int, int]] = []
    total = 0
    rows = connection.exec_driver_sql(_STARTS, (node,)).all()
    for id_, job, nodes, resources, cancel, user, name, request in rows[:MOST_STARTS]:
        if cancel is not None:
            over.append((id_, job))
            continue
        total += len(request.encode()) + len(nodes) + AROUND_BYTES
        if starts and total > 2 * MAX_JOB_BYTES:
            return starts, over, True
        starts.append(
            StartOrder(
                allocation=id_,
                job=job,
                user=user,
                name=name,
                nodes=msgspec.Raw(nodes.encode()),
                rank=json.loads(nodes).index(node),
                resources=msgspec.Raw(resources.encode()),
                request=msgspec.Raw(request.encode()),
            )
        )
    return starts, over, len(rows) > MOST_STARTS


def _end(allocation: int, job: int, cause: str, now: float) -> Report:
    return Report(allocation=allocation, job=job, kind="ended", at=now, cause=cause)


def untaken(connection: Connection) -> list[Waiting]:
    """The oldest allocation that waits for each node."""
    rows = connection.exec_driver_sql(
        f"SELECT w.node, w.id, l.job_id, l.allocated_at, n.heartbeat_at, n.state IN {_PRESENT} FROM"
        f" (SELECT p.node, min(p.allocation_id) AS id FROM allocation_nodes p WHERE {_UNTAKEN} GROUP BY p.node) w"
        " JOIN allocations l ON l.id = w.id JOIN nodes n ON n.name = w.node"
    )
    return [
        Waiting(node=node, allocation=id_, job=job, allocated_at=at, heard_at=heard_at, present=bool(present))
        for node, id_, job, at, heard_at, present in rows
    ]


def take_back(connection: Connection, overdue: Iterable[Waiting], reason: str, max_requeues: int, now: float) -> int:
    """Drain these nodes and withdraw all allocations that they have not taken; returns the number of allocations.

    Allocations that were taken meanwhile stay. A node that an administrator drained keeps that reason. A node whose
    agent has left is not drained. ``reason`` may contain ``{allocation}`` and ``{job}``.
    """
    n_back = 0
    for waiting in overdue:
        rows = connection.exec_driver_sql(
            "SELECT p.allocation_id, l.job_id FROM allocation_nodes p JOIN allocations l ON l.id = p.allocation_id"
            f" WHERE p.node = ? AND {_UNTAKEN} ORDER BY p.allocation_id",
            (waiting.node,),
        ).all()
        if not any(id_ == waiting.allocation for id_, _ in rows):
            continue
        if waiting.present:
            text = reason.format(allocation=waiting.allocation, job=waiting.job)
            drain_undrained(connection, [waiting.node], "intake", text, now)
        take_reports(
            connection, [(waiting.node, _end(id_, job, NOT_TAKEN, now)) for id_, job in rows], max_requeues, now
        )
        n_back += len(rows)
    return n_back

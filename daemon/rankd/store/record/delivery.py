"""Allocations on their way to their nodes: requested ones, ones to end, and overdue ones.

A node's agent requests its allocations. Each allocation in the answer is recorded as taken in the same transaction. So
an allocation that was withdrawn meanwhile is never sent.

Uses SQLAlchemy Core, although every agent asks here for work: 200 agents without news take 5.9 ms, as text
4.9 ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import and_, bindparam, func, or_, select, update

from rankd.core.admission.job_size import MAX_JOB_BYTES
from rankd.core.model.array import TaskOfArray
from rankd.core.model.delivery import NOT_TAKEN, Newest, Waiting
from rankd.core.model.device import AssignedDevice
from rankd.core.model.node import NodeState
from rankd.core.model.node_holder import Agent
from rankd.core.model.quantity import VCORE
from rankd.core.model.report import Report
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import in_order, most
from rankd.store.engine.prepared import run_each
from rankd.store.engine.word import TEXTS
from rankd.store.record.allocation_device import devices_of
from rankd.store.record.allocation_order import carried_out, newest_orders, open_orders
from rankd.store.record.node_action import drain_undrained
from rankd.store.record.report import take_reports
from rankd.store.record.script import read_script
from rankd.store.schema.table import (
    allocation_nodes,
    allocations,
    array_requests,
    arrays,
    associations,
    job_scripts,
    jobs,
    nodes,
    qos,
    queues,
)
from rankd.wire.message import StartOrder, Taken

MOST_STARTS = 500
"""Starts in one answer. The agent records them before it requests more."""
DEVICE_BYTES = 300
"""More than one of its devices."""
AROUND_BYTES = 1_000
"""The approximate bytes of a start without its request and nodes."""
MOST_CANCELS = 10_000

_PART, _OF = allocation_nodes.c, allocations.c
_IS_PRESENT = or_(nodes.c.state == NodeState.UP.value, nodes.c.state == NodeState.DRAINING.value)
_IS_UNTAKEN = and_(_PART.taken_at.is_(None), _PART.ended_at.is_(None))
_IS_TAKEN = and_(_PART.taken_at.is_not(None), _PART.ended_at.is_(None))
_IS_PART = _PART.allocation_id == _OF.id

_AGENTS = select(nodes.c.name, nodes.c.agent, func.coalesce(nodes.c.instance, "")).where(
    _IS_PRESENT, nodes.c.name.in_(values_of("names", TEXTS))
)
_NEWEST = select(_PART.node, func.max(_PART.allocation_id)).where(_IS_UNTAKEN).group_by(_PART.node)
_ENDS = (
    select(_PART.node, _OF.id)
    .select_from(in_order(allocations, allocation_nodes, _IS_PART))
    .where(_OF.cancel.is_not(None), _OF.ended_at.is_(None), _IS_TAKEN)
    .order_by(_OF.id)
)
_STARTED = in_order(in_order(allocation_nodes, allocations, _IS_PART), jobs, jobs.c.id == _OF.job_id)
_STARTS = (
    select(
        _OF.id,
        _OF.job_id,
        _OF.nodes,
        func.coalesce(_PART.resources, _OF.resources).label("resources"),
        _PART.resources.is_not(None).label("is_whole"),
        _OF.devices,
        _OF.cancel,
        jobs.c.user,
        jobs.c.name,
        func.coalesce(array_requests.c.request, jobs.c.request).label("request"),
        func.length(job_scripts.c.script).label("script_bytes"),
        associations.c.account,
        queues.c.path,
        qos.c.name.label("qos"),
        jobs.c.array_job,
        jobs.c.array_task,
        jobs.c.requeues,
        func.coalesce(arrays.c.n_told, arrays.c.n_tasks).label("n_tasks"),
        arrays.c.first,
        arrays.c.last,
        arrays.c.step,
    )
    .select_from(
        _STARTED.join(associations, associations.c.id == jobs.c.association_id)
        .join(queues, queues.c.id == jobs.c.queue_id)
        .join(qos, qos.c.id == jobs.c.qos_id)
        .outerjoin(job_scripts, job_scripts.c.job_id == func.coalesce(jobs.c.array_job, jobs.c.id))
        .outerjoin(array_requests, array_requests.c.id == jobs.c.request_id)
        .outerjoin(arrays, arrays.c.job_id == jobs.c.array_job)
    )
    .where(_PART.node == bindparam("node"), _IS_UNTAKEN)
    .order_by(_PART.allocation_id)
    .limit(most(MOST_STARTS + 1))
)
_WHOLE = select(_PART.allocation_id, _PART.node, _PART.resources).where(
    _PART.allocation_id.in_(values_of("ids")), _PART.resources.is_not(None)
)
_KNOWN = (
    select(_OF.id, _OF.job_id, _PART.started_at.is_not(None))
    .select_from(in_order(allocations, allocation_nodes, and_(_IS_PART, _PART.node == bindparam("node"))))
    .where(_OF.ended_at.is_(None), _IS_TAKEN)
    .order_by(_OF.id)
)
_OF_NODE = update(allocation_nodes).where(
    _PART.allocation_id == bindparam("allocation"), _PART.node == bindparam("of_node")
)
_TAKE, _SEND_AGAIN = _OF_NODE.values(taken_at=bindparam("now")), _OF_NODE.values(taken_at=None)

_UNTAKEN = (
    select(_PART.allocation_id, _OF.job_id)
    .join_from(allocation_nodes, allocations, _IS_PART)
    .where(_PART.node == bindparam("node"), _IS_UNTAKEN)
    .order_by(_PART.allocation_id)
)
_OLDEST = (
    select(_PART.node, func.min(_PART.allocation_id).label("id"))
    .where(_IS_UNTAKEN)
    .group_by(_PART.node)
    .subquery("oldest")
)
_WAITING = (
    select(_OLDEST.c.node, _OLDEST.c.id, _OF.job_id, _OF.allocated_at, nodes.c.heartbeat_at, _IS_PRESENT)
    .join_from(_OLDEST, allocations, _OF.id == _OLDEST.c.id)
    .join(nodes, nodes.c.name == _OLDEST.c.node)
)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request of an agent. ``known``: the allocations that it runs or still has to report; None: do not compare.

    ``carried_out``: orders.
    """

    node: str
    agent: str
    known: frozenset[int] | None
    instance: str = ""
    carried_out: Sequence[int] = ()


def waiting_nodes(connection: Connection, of: Sequence[str] | None = None) -> dict[str, Newest]:
    """Nodes for which allocations, ends of allocations, or orders for running jobs wait. Orders: only ``of`` these."""
    waiting: dict[str, Newest] = {node: (newest, 0) for node, newest in connection.execute(_NEWEST)}
    for node, ids in _ends(connection).items():
        waiting[node] = (waiting.get(node, (0, 0))[0], ids[-1])
    for node, order in newest_orders(connection, of).items():
        waiting[node] = (*waiting.get(node, (0, 0)), order)
    return waiting


def _ends(connection: Connection) -> dict[str, list[int]]:
    """The allocations that each node has taken and has to end, ascending."""
    ends: dict[str, list[int]] = {}
    for node, id_ in connection.execute(_ENDS):
        ends.setdefault(node, []).append(id_)
    return ends


class Given(NamedTuple):
    """An agent's answer; None if the agent does not represent its node. And whether any job or order has changed."""

    answer: Taken | None
    has_changed: bool


def give(connection: Connection, asks: Sequence[Ask], max_requeues: int, now: float) -> list[Given]:
    """The allocations that each agent has to start and to end.

    If an allocation has to end and was not taken, it ends here without having started. If it was taken but the agent
    does not know it, it is sent again if it never started; otherwise it is lost.
    """
    agents = _agents(connection, [ask.node for ask in asks])
    reports: list[tuple[str, Report]] = []
    given: list[dict[str, object]] = []
    answers: list[Given] = []
    ends = _ends(connection)
    for ask in asks:
        if ask.carried_out and _represents(ask, agents):
            carried_out(connection, ask.node, ask.carried_out)
    orders = open_orders(connection, [ask.node for ask in asks])
    for ask in asks:
        if not _represents(ask, agents):
            answers.append(Given(None, has_changed=False))
            continue
        lost = [] if ask.known is None else _compare(connection, ask.node, ask.known, now)
        starts, over, has_more = _starts(connection, ask.node)
        given += [{"allocation": start.allocation, "of_node": ask.node, "now": now} for start in starts]
        ended = [*lost, *((ask.node, _end(id_, job, "cancel", now)) for id_, job in over)]
        reports += ended
        cancels = ends.get(ask.node, [])[:MOST_CANCELS]
        answer = Taken(starts=starts, cancels=cancels, orders=orders.get(ask.node, []), more=has_more)
        answers.append(Given(answer, has_changed=bool(ended or ask.carried_out)))
    run_each(connection, _TAKE, given)
    if reports:
        take_reports(connection, reports, max_requeues, now)
    return answers


def _represents(ask: Ask, agents: Mapping[str, Agent]) -> bool:
    holder = agents.get(ask.node)
    return holder is not None and holder.name == ask.agent and holder.is_same(_agent(ask))


def _agent(ask: Ask) -> Agent:
    return Agent(name=ask.agent, instance=ask.instance)


def _agents(connection: Connection, names: Sequence[str]) -> dict[str, Agent]:
    rows = connection.execute(_AGENTS, {"names": names})
    return {node: Agent(name=agent, instance=instance) for node, agent, instance in rows}


def _compare(connection: Connection, node: str, known: frozenset[int], now: float) -> list[tuple[str, Report]]:
    """Allocations that the agent should know but does not. Sent again if they never started, otherwise lost."""
    missing = [row for row in connection.execute(_KNOWN, {"node": node}).all() if row[0] not in known]
    if again := [{"allocation": id_, "of_node": node} for id_, _, started in missing if not started]:
        connection.execute(_SEND_AGAIN, again)
    return [(node, _end(id_, job, "lost", now)) for id_, job, started in missing if started]


def _starts(connection: Connection, node: str) -> tuple[list[StartOrder], list[tuple[int, int]], bool]:
    """The starts; the allocations that end without having started; and whether more wait than fit into an answer."""
    starts: list[StartOrder] = []
    over: list[tuple[int, int]] = []
    total = 0
    rows = connection.execute(_STARTS, {"node": node}).all()
    devices = devices_of(connection, [row.id for row in rows if row.devices])
    whole = _whole(connection, [row.id for row in rows if row.is_whole])
    for row in rows[:MOST_STARTS]:
        if row.cancel is not None:
            over.append((row.id, row.job_id))
            continue
        rank = json.loads(row.nodes).index(node)
        is_run = row.script_bytes is not None and rank == 0
        here = [one for one in devices.get(row.id, ()) if one.node == node]
        held = [AssignedDevice(one.id, one.model, one.index, one.path) for one in here]
        total += len(row.request.encode()) + len(row.nodes) + AROUND_BYTES + DEVICE_BYTES * len(held)
        total += sum(len(path.encode()) for one in held for path in one.path)
        total += _in_base64(row.script_bytes) if is_run else 0
        if starts and total > 2 * MAX_JOB_BYTES:
            return starts, over, True
        start = msgspec.structs.replace(_order(row, rank), devices=held, whole=_cores(row, whole.get(row.id)))
        starts.append(
            msgspec.structs.replace(start, script=read_script(connection, row.array_job or row.job_id))
            if is_run
            else start
        )
    return starts, over, len(rows) > MOST_STARTS


def _whole(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The amounts that these allocations of exclusive jobs hold, by node."""
    found: dict[int, dict[str, Any]] = {}
    for id_, node, amounts in connection.execute(_WHOLE, {"ids": ids}) if ids else ():
        found.setdefault(id_, {})[node] = json.loads(amounts)
    return found


def _cores(row: Any, whole: dict[str, Any] | None) -> list[int]:  # noqa: ANN401 - a row of _STARTS
    """The cores (thousandths) that an exclusive job holds on each of its nodes, in their order."""
    return [whole.get(node, {}).get(VCORE, 0) for node in json.loads(row.nodes)] if whole else []


def _in_base64(n_bytes: int) -> int:
    return -(-n_bytes // 3) * 4


def _order(row: Any, rank: int) -> StartOrder:  # noqa: ANN401 - a row of _STARTS
    """What one node has to start, without the script."""
    return StartOrder(
        allocation=row.id,
        job=row.job_id,
        user=row.user,
        name=row.name,
        nodes=msgspec.Raw(row.nodes.encode()),
        rank=rank,
        resources=msgspec.Raw(row.resources.encode()),
        request=msgspec.Raw(row.request.encode()),
        holds=row.script_bytes is not None and rank > 0,
        account=row.account,
        queue=row.path,
        qos=row.qos,
        array=_task(row),
        requeues=row.requeues,
    )


def _task(row: Any) -> TaskOfArray | None:  # noqa: ANN401 - a row of _STARTS
    if row.array_job is None:
        return None
    return TaskOfArray(row.array_job, row.array_task, row.n_tasks, row.first, row.last, row.step)


def _end(allocation: int, job: int, cause: str, now: float) -> Report:
    return Report(allocation=allocation, job=job, kind="ended", at=now, cause=cause)


def untaken(connection: Connection) -> list[Waiting]:
    """The oldest allocation that waits for each node."""
    return [
        Waiting(node=node, allocation=id_, job=job, allocated_at=at, heard_at=heard_at, present=bool(present))
        for node, id_, job, at, heard_at, present in connection.execute(_WAITING)
    ]


def take_back(connection: Connection, overdue: Iterable[Waiting], reason: str, max_requeues: int, now: float) -> int:
    """Drain these nodes and withdraw all allocations that they have not taken; returns the number of allocations.

    Allocations that were taken meanwhile stay. A node that an administrator drained keeps that reason. A node whose
    agent has left is not drained. ``reason`` may contain ``{allocation}`` and ``{job}``.
    """
    n_back = 0
    for waiting in overdue:
        rows = connection.execute(_UNTAKEN, {"node": waiting.node}).all()
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

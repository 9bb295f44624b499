"""Orders for running jobs, until their nodes have carried them out: a signal to send, or another time limit.

An order has a row per node of its job. The node's agent fetches it with its allocations, and again until it says that
it is carried out. Orders of what has ended are deleted when a node fetches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import and_, delete, func, select

from rankd.core.change.job_action import MOST_ON_THEIR_WAY
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.word import TEXTS
from rankd.store.schema.table import allocation_nodes, allocation_orders, jobs
from rankd.wire.message import JobOrder

MOST_AT_ONCE = 1_000
"""Orders in one answer."""
_ORDER, _PART = allocation_orders.c, allocation_nodes.c
_OF_JOBS = (
    select(jobs.c.id, _PART.allocation_id, _PART.node)
    .join_from(jobs, allocation_nodes, _PART.allocation_id == jobs.c.allocation_id)
    .where(jobs.c.id.in_(values_of("jobs")), _PART.ended_at.is_(None))
    .order_by(jobs.c.id, _PART.node)
)
_CROWDED = (
    select(jobs.c.id)
    .join_from(jobs, allocation_orders, _ORDER.allocation_id == jobs.c.allocation_id)
    .where(jobs.c.id.in_(values_of("jobs")))
    .group_by(jobs.c.id, _ORDER.node)
    .having(func.count() >= MOST_ON_THEIR_WAY)
)
_OPEN = (
    select(
        _ORDER.id,
        _ORDER.allocation_id,
        _ORDER.node,
        _ORDER.signal,
        _ORDER.time_limit_s,
        _PART.taken_at.is_not(None),
        _PART.ended_at.is_not(None),
    )
    .join_from(
        allocation_orders,
        allocation_nodes,
        and_(_PART.allocation_id == _ORDER.allocation_id, _PART.node == _ORDER.node),
    )
    .order_by(_ORDER.id)
)
_NEWEST = (
    select(_ORDER.node, func.max(_ORDER.id))
    .join_from(
        allocation_orders,
        allocation_nodes,
        and_(_PART.allocation_id == _ORDER.allocation_id, _PART.node == _ORDER.node),
    )
    .where(_PART.taken_at.is_not(None), _PART.ended_at.is_(None))
    .group_by(_ORDER.node)
)
_DELETE = delete(allocation_orders).where(_ORDER.id.in_(values_of("ids")))
_DELETE_OF_NODES = delete(allocation_orders).where(
    _ORDER.id.in_(values_of("ids")), _ORDER.node.in_(values_of("nodes", TEXTS))
)
_COLUMNS = ("allocation_id", "node", "signal", "time_limit_s")


def order_signals(connection: Connection, jobs: Collection[int], number: int) -> None:
    """Let the nodes of these jobs send their processes a signal."""
    rows = [(allocation, node, number, None) for _, allocation, node in _parts(connection, jobs)]
    bulk_insert(connection, "allocation_orders", _COLUMNS, rows)


def order_limits(connection: Connection, limits: Mapping[int, float | None]) -> None:
    """Let the nodes of these jobs enforce other time limits (seconds)."""
    rows = [(allocation, node, None, limits[job]) for job, allocation, node in _parts(connection, limits)]
    bulk_insert(connection, "allocation_orders", _COLUMNS, rows)


def _parts(connection: Connection, of: Collection[int]) -> list[tuple[int, int, str]]:
    rows = connection.execute(_OF_JOBS, {"jobs": list(of)}).all() if of else ()
    return [(job, allocation, node) for job, allocation, node in rows]


def crowded(connection: Connection, jobs: Sequence[int]) -> set[int]:
    """Those of these jobs of which a node has not carried out as many orders as may wait."""
    return set(connection.execute(_CROWDED, {"jobs": jobs}).scalars())


def newest_orders(connection: Connection) -> dict[str, int]:
    """The nodes for which orders wait, each with the newest."""
    return {node: newest for node, newest in connection.execute(_NEWEST)}  # noqa: C416 - a row is no tuple for mypy


def open_orders(connection: Connection) -> dict[str, list[JobOrder]]:
    """What each node has to do, by ascending ids. Deletes the orders of what has ended."""
    found: dict[str, list[JobOrder]] = {}
    over: list[int] = []
    for id_, allocation, node, number, limit, is_taken, has_ended in connection.execute(_OPEN):
        if has_ended:
            over.append(id_)
        elif is_taken and len(found.setdefault(node, [])) < MOST_AT_ONCE:
            found[node].append(JobOrder(id=id_, allocation=allocation, signal=number, time_limit_s=limit))
    if over:
        connection.execute(_DELETE, {"ids": over})
    return found


def carried_out(connection: Connection, node: str, orders: Iterable[int]) -> None:
    """A node has carried out these orders. Those of other nodes stay."""
    connection.execute(_DELETE_OF_NODES, {"ids": list(orders), "nodes": [node]})

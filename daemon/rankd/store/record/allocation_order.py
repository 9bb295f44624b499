"""Orders for running jobs, until their nodes have carried them out: a signal to send, or another time limit.

An order has a row per node of its job. The node's agent fetches it with its allocations, and again until it says that
it is carried out. A job has one new time limit at most: the newest replaces those before. The orders of an allocation
for a node are deleted when it ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import and_, bindparam, delete, func, select

from rankd.core.change.job_action import MOST_ON_THEIR_WAY
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import in_order, most
from rankd.store.engine.word import TEXTS
from rankd.store.schema.table import allocation_nodes, allocation_orders, jobs, nodes
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
    .where(jobs.c.id.in_(values_of("jobs")), _ORDER.signal.is_not(None))
    .group_by(jobs.c.id, _ORDER.node)
    .having(func.count() >= MOST_ON_THEIR_WAY)
)
_WITH_PART = in_order(
    allocation_orders,
    allocation_nodes,
    and_(_PART.allocation_id == _ORDER.allocation_id, _PART.node == _ORDER.node),
)
_IS_RUN = and_(_PART.taken_at.is_not(None), _PART.ended_at.is_(None))
_OPEN = (
    select(_ORDER.id, _ORDER.allocation_id, _ORDER.signal, _ORDER.time_limit_s)
    .select_from(_WITH_PART)
    .where(_ORDER.node == bindparam("node"), _IS_RUN)
    .order_by(_ORDER.id)
    .limit(most(MOST_AT_ONCE))
)
_NEWEST_OF_ALL = select(
    nodes.c.name,
    select(_ORDER.id)
    .select_from(_WITH_PART)
    .where(_ORDER.node == nodes.c.name, _IS_RUN)
    .order_by(_ORDER.id.desc())
    .limit(most(1))
    .correlate(nodes)
    .scalar_subquery(),
)
_NEWEST = _NEWEST_OF_ALL.where(nodes.c.name.in_(values_of("nodes", TEXTS)))
_REPLACED = delete(allocation_orders).where(
    _ORDER.allocation_id.in_(select(jobs.c.allocation_id).where(jobs.c.id.in_(values_of("jobs")))),
    _ORDER.signal.is_(None),
)
_OF_ENDED = delete(allocation_orders).where(
    _ORDER.allocation_id.in_(values_of("ids")),
    select(_PART.node)
    .where(_PART.allocation_id == _ORDER.allocation_id, _PART.node == _ORDER.node, _PART.ended_at.is_not(None))
    .correlate(allocation_orders)
    .exists(),
)
_DELETE_OF_NODES = delete(allocation_orders).where(
    _ORDER.id.in_(values_of("ids")), _ORDER.node.in_(values_of("nodes", TEXTS))
)
_COLUMNS = ("allocation_id", "node", "signal", "time_limit_s")


def order_signals(connection: Connection, jobs: Collection[int], number: int) -> None:
    """Let the nodes of these jobs send their processes a signal."""
    rows = [(allocation, node, number, None) for _, allocation, node in _parts(connection, jobs)]
    bulk_insert(connection, "allocation_orders", _COLUMNS, rows)


def order_limits(connection: Connection, limits: Mapping[int, float | None]) -> None:
    """Let the nodes of these jobs enforce other time limits (seconds), instead of those they have not fetched."""
    if limits:
        connection.execute(_REPLACED, {"jobs": list(limits)})
    rows = [(allocation, node, None, limits[job]) for job, allocation, node in _parts(connection, limits)]
    bulk_insert(connection, "allocation_orders", _COLUMNS, rows)


def _parts(connection: Connection, of: Collection[int]) -> list[tuple[int, int, str]]:
    rows = connection.execute(_OF_JOBS, {"jobs": list(of)}).all() if of else ()
    return [(job, allocation, node) for job, allocation, node in rows]


def crowded(connection: Connection, jobs: Sequence[int]) -> set[int]:
    """Those of these jobs of which a node has not carried out as many signals as may wait."""
    return set(connection.execute(_CROWDED, {"jobs": jobs}).scalars())


def newest_orders(connection: Connection, nodes: Collection[str] | None = None) -> dict[str, int]:
    """Those of these nodes for which orders wait, each with the newest. None: of all nodes."""
    rows = connection.execute(_NEWEST_OF_ALL) if nodes is None else connection.execute(_NEWEST, {"nodes": nodes})
    return {node: newest for node, newest in rows if newest is not None}


def open_orders(connection: Connection, nodes: Collection[str]) -> dict[str, list[JobOrder]]:
    """What each of these nodes has to do, by ascending ids."""
    return {
        node: [
            JobOrder(id=id_, allocation=allocation, signal=number, time_limit_s=limit)
            for id_, allocation, number, limit in connection.execute(_OPEN, {"node": node})
        ]
        for node in newest_orders(connection, nodes)
    }


def forget_orders(connection: Connection, allocations: Collection[int]) -> None:
    """Delete the orders of these allocations for the nodes on which they have ended."""
    if allocations:
        connection.execute(_OF_ENDED, {"ids": allocations})


def carried_out(connection: Connection, node: str, orders: Iterable[int]) -> None:
    """A node has carried out these orders. Those of other nodes stay."""
    connection.execute(_DELETE_OF_NODES, {"ids": list(orders), "nodes": [node]})

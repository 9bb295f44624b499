"""Draining and resuming nodes. Reads their status and writes what ``core/change/node_action.py`` decides."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import select, update

from rankd.core.change.node_action import (
    HEALTH_CHECK,
    UNFIT,
    Decide,
    NodeChange,
    NodeStatus,
    check_node_exists,
    drain,
    resume,
    wants_change,
)
from rankd.core.change.report import LONGEST_DRAIN
from rankd.core.errors import Refused
from rankd.core.model.node import NodeState
from rankd.core.printable import printable
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.word import TEXTS
from rankd.store.record.node import record_node_event
from rankd.store.schema.table import nodes
from rankd.wire.message import NodeFailed, NodeReply

_OF = nodes.c
_OF_THESE = select(_OF.name, _OF.state, _OF.drained_by).where(_OF.name.in_(values_of("names", TEXTS)))


class NodeWish(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change nodes: which ones, who asks, why, and when (UTC seconds)."""

    nodes: Sequence[str]
    actor: str
    reason: str | None
    at: float


def act(connection: Connection, wish: NodeWish, decide: Decide) -> NodeReply:
    """Apply a decision to each node; a failure does not stop the others."""
    known = _read_status(connection, wish.nodes)
    done: list[str] = []
    failed: list[NodeFailed] = []
    for name in dict.fromkeys(wish.nodes):
        try:
            change = decide(name, check_node_exists(name, known.get(name)))
        except Refused as error:
            failed.append(NodeFailed(node=name, code=error.code, message=error.message))
            continue
        _write(connection, change, wish)
        done.append(name)
    return NodeReply(done=done, failed=failed)


def _read_status(connection: Connection, names: Sequence[str]) -> dict[str, NodeStatus]:
    rows = connection.execute(_OF_THESE, {"names": names})
    return {row.name: NodeStatus(state=NodeState(row.state), is_drained=row.drained_by is not None) for row in rows}


def _write(connection: Connection, change: NodeChange, wish: NodeWish) -> None:
    values: dict[str, object] = {"drained_by": None, "drained_at": None, "drain_reason": None}
    if change.after.is_drained:  # a second drain without a reason keeps the first one
        values = {"drained_by": wish.actor, "drained_at": wish.at, "drain_reason": wish.reason or _OF.drain_reason}
    connection.execute(update(nodes).where(_OF.name == change.node).values(state=change.after.state, **values))
    record_node_event(connection, change.node, change.event, wish.at, wish.actor, wish.reason)


def undrained(connection: Connection, names: Sequence[str]) -> list[str]:
    """Those of these nodes that have an agent and are not drained."""
    used = _OF_THESE.where(_OF.drained_by.is_(None), _OF.state.in_([NodeState.UP, NodeState.DRAINING]))
    return list(connection.execute(used.order_by(_OF.name), {"names": names}).scalars())


def to_judge(connection: Connection, names: Sequence[str], failure: str) -> list[str]:
    """Those of these nodes of which the result of their health check changes whether they are drained."""
    rows = connection.execute(_OF_THESE.order_by(_OF.name), {"names": names})
    return [row.name for row in rows if wants_change(row.drained_by, failure)]


def judge_health(connection: Connection, names: Sequence[str], failure: str, now: float) -> list[str]:
    """Drain nodes whose health check fails (``failure`` is not empty), or resume them; returns the changed ones."""
    changing = to_judge(connection, names, failure)
    wish = NodeWish(nodes=changing, actor=HEALTH_CHECK, reason=printable(failure)[:LONGEST_DRAIN] or None, at=now)
    return act(connection, wish, drain if failure else resume).done


def drain_unfit(connection: Connection, node: str, reason: str, now: float) -> None:
    """Drain a node that reports that it must take no more jobs. A drain by an administrator keeps its reason.

    The reason takes the place of that of a health check, since the node must not take jobs again by itself.
    """
    holder = connection.execute(select(_OF.drained_by).where(_OF.name == node)).scalar()
    if holder is None or holder == HEALTH_CHECK:
        act(connection, NodeWish(nodes=[node], actor=UNFIT, reason=reason, at=now), drain)


def drain_undrained(connection: Connection, nodes: Sequence[str], actor: str, reason: str, now: float) -> list[str]:
    """Drain these nodes, except those that are drained already, which keep their reason; returns the drained ones."""
    wish = NodeWish(nodes=undrained(connection, nodes), actor=actor, reason=reason, at=now)
    return act(connection, wish, drain).done

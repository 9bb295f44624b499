"""Draining and resuming nodes: reads their status and writes what ``core/change/node_action.py`` decides."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.change.node_action import Decide, NodeChange, NodeStatus, check_node_exists, drain
from rankd.core.errors import Refused
from rankd.core.model.node import NodeState
from rankd.store.record.node import record_node_event
from rankd.wire.message import NodeFailed, NodeReply


class NodeWish(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants something done to which nodes, why, and when (UTC seconds)."""

    nodes: Sequence[str]
    actor: str
    reason: str | None
    at: float


def act(connection: Connection, wish: NodeWish, decide: Decide) -> NodeReply:
    """Apply a decision to each node; one that fails does not stop the others."""
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


def _read_status(connection: Connection, nodes: Sequence[str]) -> dict[str, NodeStatus]:
    rows = connection.exec_driver_sql(
        "SELECT name, state, drained_by IS NOT NULL FROM nodes WHERE name IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    )
    return {name: NodeStatus(state=NodeState(state), is_drained=bool(drained)) for name, state, drained in rows}


def _write(connection: Connection, change: NodeChange, wish: NodeWish) -> None:
    drained = (wish.actor, wish.at, wish.reason) if change.after.is_drained else (None, None, None)
    connection.exec_driver_sql(
        "UPDATE nodes SET drained_by = ?, drained_at = ?, drain_reason = ?, state = ? WHERE name = ?",
        (*drained, change.after.state, change.node),
    )
    record_node_event(connection, change.node, change.event, wish.at, wish.actor, wish.reason)


def undrained(connection: Connection, nodes: Sequence[str]) -> list[str]:
    """Those of these nodes that have an agent and are not drained."""
    rows = connection.exec_driver_sql(
        "SELECT name FROM nodes WHERE name IN (SELECT value FROM json_each(?)) AND drained_by IS NULL"
        f" AND state IN ('{NodeState.UP}', '{NodeState.DRAINING}') ORDER BY name",
        (json.dumps(list(nodes)),),
    )
    return [row[0] for row in rows]


def drain_undrained(connection: Connection, nodes: Sequence[str], actor: str, reason: str, now: float) -> list[str]:
    """Drain these nodes; one that is drained already keeps its reason. Returns those that were drained now."""
    wish = NodeWish(nodes=undrained(connection, nodes), actor=actor, reason=reason, at=now)
    return act(connection, wish, drain).done

"""What administrators do to nodes: drain them, and let them take jobs again.

A drain belongs to the node's record, not to its state: it outlives restarts of agents and services, and a silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.model.node import NodeState
from rankd.store.record.node import record_node_event
from rankd.wire.message import NodeFailed, NodeReply

DRAIN, RESUME, UNDRAIN = "drain", "resume", "undrain"


class NodeWish(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants which nodes to be what, and why."""

    nodes: Sequence[str]
    actor: str
    reason: str | None
    at: float


Decide = Callable[[Connection, str, NodeWish], str | None]
"""Does it to a node; a text (code: message) where that can't be."""


def act(connection: Connection, wish: NodeWish, decide: Decide) -> NodeReply:
    """Do it to each; one that fails does not stop the others."""
    done: list[str] = []
    failed: list[NodeFailed] = []
    for name in dict.fromkeys(wish.nodes):
        if refusal := _unknown(connection, name) or decide(connection, name, wish):
            code, _, message = refusal.partition(": ")
            failed.append(NodeFailed(node=name, code=code, message=message))
        else:
            done.append(name)
    return NodeReply(done=done, failed=failed)


def _unknown(connection: Connection, name: str) -> str | None:
    found = connection.exec_driver_sql("SELECT 1 FROM nodes WHERE name = ?", (name,)).first()
    return None if found else f"unknown_node: there is no node '{name}'; `rankd nodes -N` lists them"


def drain(connection: Connection, name: str, wish: NodeWish) -> str | None:
    """Nothing new starts there; what runs goes on. Again: another reason."""
    connection.exec_driver_sql(
        f"UPDATE nodes SET drained_by = ?, drained_at = ?, drain_reason = ?,"
        f" state = CASE state WHEN '{NodeState.UP}' THEN '{NodeState.DRAINING}' ELSE state END WHERE name = ?",
        (wish.actor, wish.at, wish.reason, name),
    )
    record_node_event(connection, name, DRAIN, wish.at, wish.actor, wish.reason)
    return None


def undrained(connection: Connection, nodes: Sequence[str]) -> list[str]:
    """Those of these nodes that are there and not drained."""
    rows = connection.exec_driver_sql(
        "SELECT name FROM nodes WHERE name IN (SELECT value FROM json_each(?)) AND drained_by IS NULL"
        f" AND state IN ('{NodeState.UP}', '{NodeState.DRAINING}') ORDER BY name",
        (json.dumps(list(nodes)),),
    )
    return [row[0] for row in rows]


def drain_undrained(connection: Connection, nodes: Sequence[str], actor: str, reason: str, now: float) -> list[str]:
    """Drain these nodes; one that is drained already keeps its reason. Returns those that were drained now."""
    names = undrained(connection, nodes)
    wish = NodeWish(nodes=names, actor=actor, reason=reason, at=now)
    for name in names:
        drain(connection, name, wish)
    return names


def resume(connection: Connection, name: str, wish: NodeWish) -> str | None:
    """It takes jobs again, at once or as soon as its agent is there."""
    changed = connection.exec_driver_sql(
        f"UPDATE nodes SET drained_by = NULL, drained_at = NULL, drain_reason = NULL,"
        f" state = CASE state WHEN '{NodeState.DRAINING}' THEN '{NodeState.UP}' ELSE state END"
        f" WHERE name = ? AND (drained_by IS NOT NULL OR state = '{NodeState.DRAINING}')",
        (name,),
    )
    if not changed.rowcount:
        return f"not_draining: node '{name}' is not draining; there is nothing to undo"
    record_node_event(connection, name, RESUME, wish.at, wish.actor, wish.reason)
    return None

"""What administrators do to nodes: drain them, and let them take jobs again.

A drain belongs to the node's record, not to its state: it outlives restarts of agents and services, and a silence.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.node import NodeState


class NodeEvent(StrEnum):
    """What an action is in the list of the node's events."""

    DRAIN = "drain"
    RESUME = "resume"


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision has to know of a node."""

    state: NodeState
    is_drained: bool


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a node, and its status after it."""

    node: str
    event: NodeEvent
    after: NodeStatus


Decide = Callable[[str, NodeStatus], NodeChange]
"""Decides about the node with this name.

Raises:
    Refused: the node's status does not allow it.
"""


def check_node_exists(name: str, status: NodeStatus | None) -> NodeStatus:
    """The status of a node that exists.

    Raises:
        Refused: ``unknown_node``.
    """
    if status is None:
        message = f"there is no node '{name}'; `rankd nodes -N` lists them"
        raise Refused("unknown_node", message, "node", status=404)
    return status


def drain(name: str, status: NodeStatus) -> NodeChange:
    """No new job starts there; what runs goes on. A drained node that is drained again gets the new reason."""
    state = NodeState.DRAINING if status.state is NodeState.UP else status.state
    return NodeChange(node=name, event=NodeEvent.DRAIN, after=NodeStatus(state=state, is_drained=True))


def resume(name: str, status: NodeStatus) -> NodeChange:
    """The node takes jobs again, at once or as soon as its agent is there.

    Raises:
        Refused: ``not_draining``.
    """
    if not status.is_drained and status.state is not NodeState.DRAINING:
        raise Refused("not_draining", f"node '{name}' is not draining; there is nothing to undo", "node", status=409)
    state = NodeState.UP if status.state is NodeState.DRAINING else status.state
    return NodeChange(node=name, event=NodeEvent.RESUME, after=NodeStatus(state=state, is_drained=False))

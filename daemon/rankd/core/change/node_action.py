"""Actions of administrators on nodes: drain a node, and let it take jobs again.

A drain is in the node's record, not in its state. So it lasts through restarts of agents and services, and through a
silence of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.node import NodeState

HEALTH_CHECK = "health check"
"""Who has drained a node whose health check fails. No user has this name: it has a space."""

UNFIT = "intake"
"""Who has drained a node on which a prolog or epilog failed, or whose agent can't run jobs: rankd itself."""


class NodeEvent(StrEnum):
    """The event that records an action on a node."""

    DRAIN = "drain"
    RESUME = "resume"


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a node that a decision needs."""

    state: NodeState
    is_drained: bool


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a node, and the node's status after it."""

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
    """No new job starts on the node. Running jobs go on.

    A drained node that is drained again gets the new reason, if one is given.
    """
    state = NodeState.DRAINING if status.state is NodeState.UP else status.state
    return NodeChange(node=name, event=NodeEvent.DRAIN, after=NodeStatus(state=state, is_drained=True))


def resume(name: str, status: NodeStatus) -> NodeChange:
    """The node takes jobs again: at once, or as soon as its agent has connected.

    Raises:
        Refused: ``not_draining``.
    """
    if not status.is_drained and status.state is not NodeState.DRAINING:
        raise Refused("not_draining", f"node '{name}' is not draining; it needs no resume", "node", status=409)
    state = NodeState.UP if status.state is NodeState.DRAINING else status.state
    return NodeChange(node=name, event=NodeEvent.RESUME, after=NodeStatus(state=state, is_drained=False))


def wants_change(drained_by: str | None, failure: str) -> bool:
    """Whether a health check changes the node: it fails (``failure``) or succeeds (empty).

    A drain of an administrator stays. While the check fails, the first reason stays.

    >>> wants_change(None, "disk full"), wants_change("ann", "disk full"), wants_change(HEALTH_CHECK, "disk full")
    (True, False, False)
    >>> wants_change(HEALTH_CHECK, ""), wants_change("ann", ""), wants_change(None, "")
    (True, False, False)
    """
    return drained_by is None if failure else drained_by == HEALTH_CHECK

"""Nodes as they were at an earlier event: their states. Capacities, labels and devices are those of now.

SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rankd.core.model.node import Node, NodeState
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.record.all_nodes import all_nodes

_EVENTS = "SELECT id, node, event FROM node_events ORDER BY id"
_STATES = frozenset(state.value for state in NodeState)
_CHANGES = frozenset({"changed", "device"})
"""Events of which the records have only the values after them."""


class PastNodes(NamedTuple):
    """The nodes, and notes about those that have changed since in more than their states."""

    nodes: list[Node]
    notes: list[str]


def nodes_then(connection: Reader, event: int | None) -> PastNodes:
    """The nodes at this event, by name; None: as they are now. A node that joined later is left out."""
    present = all_nodes(connection)
    if event is None:
        return PastNodes(present, [])
    events: dict[str, list[Row]] = {}
    for row in fetch(connection, _EVENTS):
        events.setdefault(row["node"], []).append(row)
    nodes, changed = [], []
    for node in present:
        own = events.get(node.name, [])
        later = [row for row in own if row["id"] > event]
        if any(row["event"] == "joined" for row in later):
            continue
        state = state_of([row["event"] for row in own[: len(own) - len(later)]]) if later else node.state
        nodes.append(msgspec.structs.replace(node, state=state))
        if not _CHANGES.isdisjoint(row["event"] for row in later):
            changed.append(node.name)
    about = f"capacity, labels and devices of nodes that changed later are those of now: {', '.join(changed)}"
    return PastNodes(nodes, [about] if changed else [])


def state_of(events: Sequence[str]) -> NodeState:
    """A node's state after these events. A node without any event was up: nothing had happened to it."""
    state, is_drained = NodeState.UP, False
    for event in events:
        if event in ("joined", "changed"):
            state = NodeState.UP
        elif event in _STATES:
            state = NodeState(event)
        elif event == "drain":
            is_drained = True
        elif event == "resume":
            is_drained, state = False, NodeState.UP if state is NodeState.DRAINING else state
    return NodeState.DRAINING if is_drained and state is NodeState.UP else state

"""A node: its capacity, what is used of it, and whether it takes more jobs."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rankd.core.model.quantity import Resources


class NodeState(StrEnum):
    """``up`` takes jobs; ``draining`` takes no new ones; ``down`` and ``lost`` nodes do not count."""

    UP = "up"
    DRAINING = "draining"
    DOWN = "down"
    LOST = "lost"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts are internal ones: thousandths of a core, bytes."""

    name: str
    partition: str = "default"
    capacity: Resources
    used: Resources = {}
    labels: dict[str, str] = {}
    state: NodeState = NodeState.UP

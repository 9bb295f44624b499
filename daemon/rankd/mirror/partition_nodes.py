"""What the nodes of a partition offer together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import VCORE, Resources, add_amounts

_COUNTED = (NodeState.UP, NodeState.DRAINING)


class PartitionNodes(NamedTuple):
    """How many nodes are up or draining, and what they offer in all."""

    n_nodes: int
    total: Resources

    @property
    def cores(self) -> float:
        """Whole cores, of thousandths."""
        return self.total.get(VCORE, 0) / 1000.0


def partition_nodes(nodes: Iterable[Node], partition: str) -> PartitionNodes:
    """The sum over a partition's nodes."""
    counted = [node for node in nodes if node.partition == partition and node.state in _COUNTED]
    total: Resources = {}
    for node in counted:
        add_amounts(total, node.capacity)
    return PartitionNodes(len(counted), total)

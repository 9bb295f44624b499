"""The resources that the nodes of a partition offer together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import VCORE, Resources, add_amounts

_COUNTED = (NodeState.UP, NodeState.DRAINING)


class PartitionNodes(NamedTuple):
    """The number of nodes that are up or draining, and their total resources."""

    n_nodes: int
    total: Resources

    @property
    def cores(self) -> float:
        """The total in cores."""
        return self.total.get(VCORE, 0) / 1000.0


def partition_nodes(nodes: Iterable[Node], partition: str) -> PartitionNodes:
    """The sum over a partition's nodes."""
    counted = [node for node in nodes if node.partition == partition and node.state in _COUNTED]
    total: Resources = {}
    for node in counted:
        add_amounts(total, node.capacity)
    return PartitionNodes(len(counted), total)

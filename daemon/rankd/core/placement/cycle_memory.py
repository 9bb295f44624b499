"""The values that one cycle of a partition keeps for the next."""

from __future__ import annotations

from rankd.core.placement.common_reason import CommonReasons
from rankd.core.placement.node_set import NodeSet, totals
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import PartitionProblem
from rankd.core.placement.room_table import RoomTable


class CycleMemory:
    """The values that one cycle of a partition keeps for the next. They save time; they do not change decisions."""

    def __init__(self) -> None:
        self.partition = PartitionState()
        self.rooms = RoomTable()
        self.common = CommonReasons()

    def successor(self) -> CycleMemory:
        """A memory without jobs for the same queues, nodes and kinds."""
        other = CycleMemory()
        other.partition, other.common = self.partition.successor(), self.common
        return other

    def update(self, problem: PartitionProblem) -> None:
        """Update the memory to a problem. Each cycle does this; doing it before the cycle makes the cycle shorter."""
        nodes = problem.nodes
        self.partition.update(problem, nodes.totals if isinstance(nodes, NodeSet) else totals(nodes))
        self.rooms.follow(self.partition)
        if problem.explain:
            self.rooms.update(self.partition)

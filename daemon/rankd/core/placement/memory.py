"""What a cycle of a partition leaves to the next one."""

from __future__ import annotations

from rankd.core.placement.forest import Forest
from rankd.core.placement.node_set import NodeSet, totals
from rankd.core.placement.passed import PassedReasons
from rankd.core.placement.problem import PartitionProblem
from rankd.core.placement.room_table import RoomTable


class CycleMemory:
    """What one cycle of a partition leaves to the next; it changes what a cycle costs, not what comes out."""

    def __init__(self) -> None:
        self.forest = Forest()
        self.rooms = RoomTable()
        self.passed = PassedReasons()

    def successor(self) -> CycleMemory:
        """One without jobs for the same queues, nodes and kinds."""
        other = CycleMemory()
        other.forest, other.passed = self.forest.successor(), self.passed
        return other

    def take(self, problem: PartitionProblem) -> None:
        """Bring it up to a problem, as each cycle does; done beforehand, the cycle finds it done."""
        nodes = problem.nodes
        self.forest.take(problem, nodes.totals if isinstance(nodes, NodeSet) else totals(nodes))
        self.rooms.take(self.forest)

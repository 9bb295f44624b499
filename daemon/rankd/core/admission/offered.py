"""What nodes have offered so far, to warn a user whose job no node could run. A job may still wait for such a node."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.model.quantity import Resources, shown
from rankd.core.near_name import cut
from rankd.core.placement.constraint import NODE, parse_constraints
from rankd.core.placement.request import Shape, counted_nodes


class Offered:
    """The nodes of each partition, and the most that one of them has offered. What has gone still counts.

    So a doubt is never wrong, but not every job that fits no node has one. An answer takes no look at single nodes.
    """

    def __init__(self) -> None:
        self._partition_of: dict[str, str] = {}
        self._nodes: dict[str, int] = {}
        self._most: dict[tuple[str, str], int] = {}

    def learn(self, node: str, partition: str, capacity: Resources) -> None:
        """A node has registered."""
        before = self._partition_of.get(node)
        if before != partition:
            self._partition_of[node] = partition
            self._nodes[partition] = self._nodes.get(partition, 0) + 1
            if before is not None:
                self._nodes[before] -= 1
        for kind, amount in capacity.items():
            self._most[partition, kind] = max(amount, self._most.get((partition, kind), 0))

    def doubt(self, shape: Shape) -> str | None:
        """Why no node that is known could run the job; None if one might, or if the partition has no node yet."""
        number = self._nodes.get(shape.partition, 0)
        if not number:
            return None  # a site that begins: its nodes are about to come
        why = self._about_names(shape) or self._about_amounts(shape.partition, shape.resources)
        if why is None and number < shape.min_nodes:
            why = f"partition '{cut(shape.partition)}' has {counted_nodes(number)}, and the job needs {shape.min_nodes}"
        return None if why is None else f"{why}; the job waits until that changes"

    def _about_names(self, shape: Shape) -> str | None:
        for term in parse_constraints(shape.constraints):
            if term.key != NODE or term.operator != "in":
                continue
            here = [name for name in term.values if self._partition_of.get(name) == shape.partition]
            if len(here) < shape.min_nodes:
                missing = min(term.values - set(here))
                return f"there is no node '{cut(missing)}' in partition '{cut(shape.partition)}'"
        return None

    def _about_amounts(self, partition: str, wanted: Mapping[str, int]) -> str | None:
        for kind, amount in wanted.items():
            most = self._most.get((partition, kind), 0)
            if amount > most:
                return (
                    f"the job asks for {kind} {shown(kind, amount)} on a node, and no node in partition"
                    f" '{cut(partition)}' offers more than {shown(kind, most)}"
                )
        return None

"""What nodes offer, to warn a user whose job no node could run. A job may still wait for such a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from rankd.core.model.amount_text import compared
from rankd.core.model.quantity import Resources
from rankd.core.near_name import cut
from rankd.core.placement.constraint import NODE, parse_constraints
from rankd.core.placement.request import Shape, counted_nodes

MOST_KINDS = 1_000
"""Resource types that are kept of one node: a node that lies about its resources fills no memory."""


class Offered:
    """The nodes of each partition, and what each offered when it registered last, also if it has gone since.

    An answer takes no look at single nodes: the amounts of a partition are counted, and nodes of a kind have the same.
    """

    def __init__(self) -> None:
        self._offer_of: dict[str, tuple[str, Resources]] = {}
        self._nodes: Counter[str] = Counter()
        self._amounts: dict[tuple[str, str], Counter[int]] = {}

    def learn(self, node: str, partition: str, capacity: Resources) -> None:
        """A node has registered; what it offered before no longer counts. ``capacity``: with its failed devices."""
        before = self._offer_of.get(node)
        offer = (partition, dict(islice(capacity.items(), MOST_KINDS)))
        if before == offer:
            return
        if before is not None:
            self._count(*before, -1)
        self._offer_of[node] = offer
        self._count(*offer, 1)

    def size(self) -> int:
        """How many amounts are kept of all partitions, to watch their memory."""
        return sum(map(len, self._amounts.values()))

    def _count(self, partition: str, capacity: Resources, number: int) -> None:
        self._nodes[partition] += number
        if not self._nodes[partition]:
            del self._nodes[partition]
        for kind, amount in capacity.items():
            amounts = self._amounts.setdefault((partition, kind), Counter())
            amounts[amount] += number
            if not amounts[amount]:
                del amounts[amount]
            if not amounts:
                del self._amounts[partition, kind]

    def _most(self, partition: str, kind: str) -> int:
        return max(self._amounts.get((partition, kind), ()), default=0)

    def doubt(self, shape: Shape) -> str | None:
        """Why no node that is known could run the job; None if one might, or if the partition has no node yet."""
        number = self._nodes[shape.partition]
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
            here = [name for name in term.values if self._offer_of.get(name, ("",))[0] == shape.partition]
            if len(here) < shape.min_nodes:
                missing = min(term.values - set(here))
                return f"there is no node '{cut(missing)}' in partition '{cut(shape.partition)}'"
        return None

    def _about_amounts(self, partition: str, wanted: Mapping[str, int]) -> str | None:
        for kind, amount in wanted.items():
            most = self._most(partition, kind)
            if amount > most:
                asked, offer = compared(kind, amount, most)
                return (
                    f"the job asks for {kind} {asked} on a node, and no node in partition '{cut(partition)}' offers"
                    f" more than {offer}"
                )
        return None

"""The amounts that each node lacks for a waiting job. For commands of users; the cycle does not need it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rankd.core.placement.constraint import parse_constraints, satisfied


class NodeRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is up in the job's partition. ``capacity`` and ``used`` have the same units."""

    name: str
    capacity: Mapping[str, float]
    used: Mapping[str, float]
    labels: Mapping[str, str]
    is_empty: bool


class NodeShortage(msgspec.Struct, frozen=True, kw_only=True):
    """How much free room a node lacks, by type. ``occupied``: the job needs an empty node, and this one is not.

    ``taken``: which devices are taken, drained or failed, with the processes or the reason.
    """

    node: str
    amounts: dict[str, float]
    occupied: bool = False
    taken: list[str] = []


def node_shortages(
    resources: Mapping[str, float], constraints: str | None, nodes: Iterable[NodeRoom], *, exclusive: bool
) -> list[NodeShortage]:
    """The nodes that could hold a share of the job if they were empty, but can't now. The smallest shortage is first.

    ``resources``: the amounts that the job asks for per node, in the units of the nodes.

    >>> full = NodeRoom(name="n1", capacity={"vcore": 4}, used={"vcore": 3}, labels={}, is_empty=False)
    >>> node_shortages({"vcore": 2}, None, [full], exclusive=False)
    [NodeShortage(node='n1', amounts={'vcore': 1}, occupied=False)]
    """
    requirements = parse_constraints(constraints)
    found = []
    for node in nodes:
        if not satisfied(requirements, node.labels, node.name):
            continue
        if any(amount > node.capacity.get(kind, 0) for kind, amount in resources.items()):
            continue
        free = {kind: node.capacity.get(kind, 0) - node.used.get(kind, 0) for kind in resources}
        short = {kind: amount - free[kind] for kind, amount in sorted(resources.items()) if amount > free[kind]}
        occupied = exclusive and not node.is_empty
        if short or occupied:
            found.append(NodeShortage(node=node.name, amounts={} if occupied else short, occupied=occupied))
    return sorted(found, key=lambda lack: (len(lack.amounts), sum(lack.amounts.values()), lack.node))

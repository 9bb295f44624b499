"""What each node lacks for a job that waits for room: for people who ask, not for the cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rankd.core.placement.constraint import parse_constraints, satisfied


class NodeRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is up in the job's partition. Amounts of both in the same unit."""

    name: str
    capacity: Mapping[str, float]
    used: Mapping[str, float]
    labels: Mapping[str, str]
    is_empty: bool


class NodeShortage(msgspec.Struct, frozen=True, kw_only=True):
    """By how much a node's free room is too small, by type; ``occupied``: it would have to be empty."""

    node: str
    amounts: dict[str, float]
    occupied: bool = False


def node_shortages(
    resources: Mapping[str, float], constraints: str | None, nodes: Iterable[NodeRoom], *, exclusive: bool
) -> list[NodeShortage]:
    """The nodes that could hold a share of the job, were they empty, and can't now; what lacks least first.

    ``resources``: what the job asks for per node, in the nodes' units.

    >>> full = NodeRoom(name="n1", capacity={"vcore": 4}, used={"vcore": 3}, labels={}, is_empty=False)
    >>> node_shortages({"vcore": 2}, None, [full], exclusive=False)
    [NodeShortage(node='n1', amounts={'vcore': 1}, occupied=False)]
    """
    requirements = parse_constraints(constraints)
    found = []
    for node in nodes:
        if not satisfied(requirements, node.labels):
            continue
        if any(amount > node.capacity.get(kind, 0) for kind, amount in resources.items()):
            continue
        free = {kind: node.capacity.get(kind, 0) - node.used.get(kind, 0) for kind in resources}
        short = {kind: amount - free[kind] for kind, amount in sorted(resources.items()) if amount > free[kind]}
        occupied = exclusive and not node.is_empty
        if short or occupied:
            found.append(NodeShortage(node=node.name, amounts={} if occupied else short, occupied=occupied))
    return sorted(found, key=lambda lack: (len(lack.amounts), sum(lack.amounts.values()), lack.node))

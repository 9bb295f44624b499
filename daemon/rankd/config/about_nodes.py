"""Warnings about a configuration that depend on the nodes: names of resources that no node has, and prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankd.config.configuration import Configuration
from rankd.config.contradicting_maximum import contradicting_maxima
from rankd.config.unoffered_maximum import named_types, unoffered_maxima
from rankd.core.admission.node_check import node_capacity
from rankd.core.errors import Problem
from rankd.core.fairshare.node_price import node_prices, unoffered, unpriced
from rankd.core.model.device import GPU, model_of
from rankd.core.model.node import Node
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import MEMORY, VCORE

MOST_PRICES = 10
"""Kinds of nodes in a warning, the most expensive ones."""
MOST_NAMED = 10
FILE, BILLING = "rankd.toml", "priority.fairshare.billing"
_USUAL = frozenset({VCORE, MEMORY, GPU})
"""Types whose names are right whatever the nodes have."""


def about_nodes(configuration: Configuration, nodes: Sequence[Node]) -> list[Problem]:
    """The warnings, for these nodes. Without nodes the list is empty."""
    partitions = configuration.partitions
    return [
        *unoffered_maxima(partitions, nodes),
        *contradicting_maxima(partitions, nodes),
        *of_prices(nodes, configuration.settings.priority.fairshare.billing),
    ]


def known_nodes(configuration: Configuration) -> list[Node]:
    """The nodes that ``[nodes] known`` lists: no others can register, and other types of resources do not count.

    Empty if it leaves open what a node has: an entry without amounts, or with ``gpu`` of any model.
    """
    known = configuration.settings.nodes.known
    found = [(names, node_capacity(most)) for names, most in known.items()]
    if any(not capacity or (GPU in capacity and not any(map(model_of, capacity))) for _, capacity in found):
        return []
    return [Node(name=name, capacity=capacity) for names, capacity in found for name in unfold(names)]


def unchecked(configuration: Configuration, nodes: Sequence[Node]) -> str:
    """Which names of resources could not be compared with nodes, since none is known; "" if there is no such name."""
    if nodes:
        return ""
    named = {kind for kind, _ in named_types(configuration.partitions)}
    kinds = sorted((named | configuration.settings.priority.fairshare.billing.keys()) - _USUAL)
    if not kinds:
        return ""
    more = f" and {len(kinds) - MOST_NAMED} more" if len(kinds) > MOST_NAMED else ""
    return (
        f"Not checked: whether nodes have {', '.join(kinds[:MOST_NAMED])}{more}. No nodes are known here; run it where"
        " rankd runs, or list them in [nodes] known"
    )


def _prices(nodes: Sequence[Node], billing: Mapping[str, float]) -> str:
    return ", ".join(f"{one.nodes} {one.price:g}" for one in node_prices(nodes, billing)[:MOST_PRICES])


def of_prices(nodes: Sequence[Node], billing: Mapping[str, float]) -> list[Problem]:
    """Warnings about what nodes offer and no price counts, and about prices of what no node has."""
    free, useless = unpriced(nodes, billing), unoffered(nodes, billing)
    prices = _prices(nodes, billing) if free else ""
    messages = [
        f"{kind} has no price, but {offering} {'offer' if '[' in offering or ',' in offering else 'offers'}"
        f" it: jobs get it for nothing. A second of a whole node costs: {prices}"
        for kind, offering in free.items()
    ]
    messages += [f"no node has {kind}, so its price has no effect; correct the name, or remove it" for kind in useless]
    return [Problem(file=FILE, path=BILLING, message=message) for message in messages]


def costs_of(configuration: Configuration, nodes: Sequence[Node]) -> str:
    """What whole nodes cost, if some have GPUs and no warning has the costs already; else ""."""
    billing = configuration.settings.priority.fairshare.billing
    has_gpus = any(node.capacity.get(GPU) for node in nodes)
    return (
        f"A second of a whole node costs: {_prices(nodes, billing)}"
        if has_gpus and not unpriced(nodes, billing)
        else ""
    )

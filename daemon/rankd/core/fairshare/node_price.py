"""What whole nodes cost in fair share, and which of their resources cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rankd.core.fairshare.decay import billing_rate
from rankd.core.model.device import GPU, kind_of, model_of
from rankd.core.model.node import Node
from rankd.core.model.nodelist import fold
from rankd.core.model.quantity import MEMORY, VCORE

FREE = frozenset({MEMORY})
"""Types that may well cost nothing: the default prices cores and GPUs, and memory comes along with cores."""


class NodePrice(NamedTuple):
    """Nodes with the same resources (``n[01-04]``), and what a second of a whole one costs, in billing units."""

    nodes: str
    price: float


def node_prices(nodes: Iterable[Node], billing: Mapping[str, float]) -> list[NodePrice]:
    """The price of a whole node of each kind, the most expensive kind first."""
    kinds: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for node in nodes:
        kinds.setdefault(tuple(sorted(node.capacity.items())), []).append(node.name)
    found = [NodePrice(fold(names), billing_rate(dict(kind), 1, billing, 1.0)) for kind, names in kinds.items()]
    return sorted(found, key=lambda one: (-one.price, one.nodes))


def unoffered(nodes: Iterable[Node], billing: Mapping[str, float]) -> list[str]:
    """The prices of models that none of the nodes has, and of other types that none offers; none without nodes.

    >>> unoffered([Node(name="n1", capacity={"vcore": 8000, "gpu:a100": 1})], {"vcore": 1.0, "gpu:a10": 2.0})
    ['gpu:a10']
    """
    return sorted(billing.keys() - known) if (known := known_types(nodes)) else []


def known_types(nodes: Iterable[Node]) -> frozenset[str]:
    """The types that nodes offer, also those of devices that have failed; and cores, memory and GPUs.

    Empty without nodes.

    >>> sorted(known_types([Node(name="n1", capacity={"vcore": 8000, "gpu:a100": 1})])), known_types([])
    (['gpu', 'gpu:a100', 'memory', 'vcore'], frozenset())
    """
    listed = list(nodes)
    known = {VCORE, MEMORY, GPU}.union(*(node.capacity for node in listed))
    known.update(kind_of(device.model) for node in listed for device in node.devices)
    return frozenset(known) if listed else frozenset()


def unpriced(nodes: Iterable[Node], billing: Mapping[str, float]) -> dict[str, str]:
    """The types that nodes offer and that have no price, each with these nodes. A price of ``gpu`` is one of a model.

    >>> unpriced([Node(name="n1", capacity={"vcore": 8000, "fpga": 1})], {"vcore": 1.0})
    {'fpga': 'n1'}
    """
    offering: dict[str, list[str]] = {}
    for node in nodes:
        names_models = any(model_of(kind) is not None for kind in node.capacity)
        for kind, amount in node.capacity.items():
            is_priced = kind in billing or kind in FREE or (model_of(kind) is not None and GPU in billing)
            if amount and not is_priced and not (kind == GPU and names_models):
                offering.setdefault(kind, []).append(node.name)
    return {kind: fold(names) for kind, names in sorted(offering.items())}

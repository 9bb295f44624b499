"""What nodes offer, to warn a user whose job no node could run. A job may still wait for such a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from rankd.core.model.amount_text import compared
from rankd.core.model.device import Device, DeviceState, in_order, is_device_kind, model_of, with_models
from rankd.core.model.quantity import Resources
from rankd.core.near_name import cut
from rankd.core.placement.constraint import NODE, Requirement, parse_constraints, satisfied, too_few_named
from rankd.core.placement.request import Shape, counted_nodes, described_request

Bounds = Sequence[tuple[str, Resources]]
"""Maxima and limits, each with its name: ``user alice in root``."""
MOST_PARTS = 1_000
"""Nodes over which a message proposes to spread devices."""
MOST_KINDS = 1_000
"""Resource types that are kept of one node: a node that lies about its resources fills no memory."""
MOST_LABELS = 256
MOST_LOOKED_AT = 1_000
"""The most different kinds of nodes that are looked at one by one: in a partition with more, some jobs get no warning.

1,000 kinds take 1 ms for each single submission that names labels or several types of resources.
"""

Class = tuple[frozenset[tuple[str, int]], frozenset[tuple[str, str]], frozenset[tuple[str, int]] | None]
"""The amounts, the labels, and the amounts that new jobs may get, which nodes have in common."""
_OUT_OF_USE = (DeviceState.DRAINED, DeviceState.FAILED)
MOST_NAMED = 3
"""Nodes, and devices of a node, that a message names."""


class Offer(NamedTuple):
    """What a node has offered: its amounts, and its labels.

    ``usable``: without drained and failed devices; None if no device is out of use. ``out``: these devices, in order.
    """

    partition: str
    capacity: Resources
    labels: Mapping[str, str]
    usable: Resources | None = None
    out: tuple[Device, ...] = ()

    @property
    def kind(self) -> Class:
        """Nodes with the same kind can run the same jobs, if these name no nodes."""
        usable = None if self.usable is None else frozenset(self.usable.items())
        return frozenset(self.capacity.items()), frozenset(self.labels.items()), usable

    def holds(self, resources: Resources) -> bool:
        """Whether these amounts fit on the empty node."""
        return all(amount <= self.capacity.get(kind, 0) for kind, amount in resources.items())

    def now(self) -> Offer:
        """The offer without the devices that are out of use."""
        return self if self.usable is None else self._replace(capacity=self.usable)

    def with_devices(self, devices: Sequence[Device]) -> Offer:
        """The same offer, with its devices in these states."""
        out = tuple(device for device in in_order(devices) if device.state in _OUT_OF_USE)
        if not out:
            return self._replace(usable=None, out=())
        left = [device.model for device in devices if device.state not in _OUT_OF_USE]
        return self._replace(usable=with_models(self.capacity, left), out=out)

    def described_out(self, wanted: Resources) -> str:
        """The devices that are out of use, in words: only those of the models that are asked for, if any is named."""
        models = {model for kind, amount in wanted.items() if amount and (model := model_of(kind)) is not None}
        out = [device for device in self.out if device.model in models] or self.out
        named = ", ".join(f"{one.type} {one.index} {one.state}" for one in out[:MOST_NAMED])
        return named + (f" and {len(out) - MOST_NAMED} more" if len(out) > MOST_NAMED else "")


_NOWHERE = Offer("", {}, {})


class Offered:
    """The nodes of each partition, and what each offered when it registered last, also if it has gone since.

    An answer takes no look at single nodes, except those that the job names: the amounts of a partition are counted,
    and so are its kinds of nodes, with the same amounts and labels.
    """

    def __init__(self) -> None:
        self._offer_of: dict[str, Offer] = {}
        self._kinds: dict[str, dict[Class, tuple[Offer, int]]] = {}
        self._nodes: Counter[str] = Counter()
        self._amounts: dict[tuple[str, str], Counter[int]] = {}
        self._out: dict[str, set[str]] = {}
        """By partition: the nodes with devices that are out of use."""

    def learn(
        self,
        node: str,
        partition: str,
        capacity: Resources,
        labels: Mapping[str, str] = MappingProxyType({}),
        devices: Sequence[Device] = (),
    ) -> None:
        """A node has registered; what it offered before no longer counts. ``capacity``: with its failed devices."""
        own = dict(islice(labels.items(), MOST_LABELS))
        offer = Offer(partition, dict(islice(capacity.items(), MOST_KINDS)), own)
        self._put(node, offer.with_devices(devices))

    def note(self, node: str, devices: Sequence[Device]) -> None:
        """The devices of a node that has registered are in these states now."""
        if (offer := self._offer_of.get(node)) is not None:
            self._put(node, offer.with_devices(devices))

    def _put(self, node: str, offer: Offer) -> None:
        before = self._offer_of.get(node)
        if before == offer:
            return
        if before is not None:
            self._count(before, -1)
            self._out.get(before.partition, set()).discard(node)
        self._offer_of[node] = offer
        self._count(offer, 1)
        if offer.out:
            self._out.setdefault(offer.partition, set()).add(node)

    def size(self) -> int:
        """How many amounts are kept of all partitions, to watch their memory."""
        return sum(map(len, self._amounts.values()))

    def _count(self, offer: Offer, number: int) -> None:
        partition, capacity = offer.partition, offer.capacity
        kinds, kind = self._kinds.setdefault(partition, {}), offer.kind
        kinds[kind] = (offer, kinds.get(kind, (offer, 0))[1] + number)
        if not kinds[kind][1]:
            del kinds[kind]
        self._nodes[partition] += number
        if not self._nodes[partition]:
            del self._nodes[partition], self._kinds[partition]
        for resource, amount in capacity.items():
            amounts = self._amounts.setdefault((partition, resource), Counter())
            amounts[amount] += number
            if not amounts[amount]:
                del amounts[amount]
            if not amounts:
                del self._amounts[partition, resource]

    def _most(self, partition: str, kind: str) -> int:
        return max(self._amounts.get((partition, kind), ()), default=0)

    def _least(self, shape: Shape, kind: str) -> int:
        """The least of a type that the job would hold on whole nodes. Nodes with less than it asks for don't count."""
        asked, left, total = shape.resources.get(kind, 0), shape.min_nodes, 0
        amounts = self._amounts.get((shape.partition, kind), Counter[int]())
        without = self._nodes[shape.partition] - amounts.total()
        for amount, number in sorted([(0, without), *amounts.items()]):
            taken = min(left, number) if amount >= asked else 0
            total, left = total + taken * amount, left - taken
        return total

    def doubt(self, shape: Shape, bounds: Bounds = ()) -> str | None:
        """Why no node that is known could run the job; None if one might, or if the partition has no node yet.

        ``bounds``: of an exclusive job, the maxima and limits that apply to it, each with its name.
        """
        number = self._nodes[shape.partition]
        if not number:
            return None  # a site that begins: its nodes are about to come
        why = self._about_names(shape) or self._about_excluded(shape) or self._about_amounts(shape)
        if why is None and number < shape.min_nodes:
            why = f"partition '{cut(shape.partition)}' has {counted_nodes(number)}, and the job needs {shape.min_nodes}"
        why = why or self._about_all(shape) or self._about_whole(shape, bounds) or self._about_devices(shape)
        return None if why is None else f"{why}; the job waits until that changes"

    def _about_whole(self, shape: Shape, bounds: Bounds) -> str | None:
        for whose, most in bounds if shape.exclusive else ():
            for kind, limit in most.items():
                least = self._least(shape, kind)
                if least > limit:
                    held, may = compared(kind, least, limit)
                    return (
                        f"an exclusive job holds whole nodes, here {kind} {held} at least, and the limit of {whose} is"
                        f" {may}; leave out --exclusive"
                    )
        return None

    def _about_names(self, shape: Shape) -> str | None:
        terms = parse_constraints(shape.constraints)
        if few := too_few_named(terms, shape.min_nodes):  # of a job that an older version accepted
            return few
        for term in terms:
            if term.key != NODE or term.operator != "in":
                continue
            here = [name for name in term.values if self._offer_of.get(name, _NOWHERE).partition == shape.partition]
            if len(here) < shape.min_nodes:
                missing = min(term.values - set(here))
                return f"there is no node '{cut(missing)}' in partition '{cut(shape.partition)}'"
            small = [name for name in here if not self._offer_of[name].holds(shape.resources)]
            if len(here) - len(small) < shape.min_nodes:
                return self._too_small(min(small), shape.resources)
        return None

    def _about_excluded(self, shape: Shape) -> str | None:
        """Whether the nodes that the job does not want leave too few others."""
        terms = [one for one in parse_constraints(shape.constraints) if one.key == NODE and one.operator == "notin"]
        names = frozenset[str]().union(*(term.values for term in terms))
        out = [name for name in names if self._offer_of.get(name, _NOWHERE).partition == shape.partition]
        number = self._nodes[shape.partition]
        if not out or number - len(out) >= shape.min_nodes:
            return None
        has = f"partition '{cut(shape.partition)}' has {counted_nodes(number)}"
        return f"{has}, the job excludes {len(out)} of them and needs {shape.min_nodes}"

    def _too_small(self, node: str, wanted: Resources) -> str:
        capacity = self._offer_of[node].capacity
        kind = next(kind for kind, amount in wanted.items() if amount > capacity.get(kind, 0))
        asked, offer = compared(kind, wanted[kind], capacity.get(kind, 0))
        return f"the job asks for {kind} {asked} on node '{cut(node)}', which offers {offer}"

    def _about_all(self, shape: Shape) -> str | None:
        """Whether too few nodes have all of it together: the amounts, the labels and the names."""
        terms = parse_constraints(shape.constraints)
        if not terms and len(shape.resources) <= 1:
            return None
        able = self._able(shape, terms)
        if able is None or able >= shape.min_nodes:
            return None
        return (
            f"the job asks for {described_request(shape)}, and {able or 'no'} node{'' if able == 1 else 's'} in"
            f" partition '{cut(shape.partition)}' {'has' if able == 1 else 'have'} all of that"
        )

    def _about_devices(self, shape: Shape) -> str | None:
        """Whether too few nodes have enough devices that are not out of use."""
        nodes = self._out.get(shape.partition)
        if not nodes or not any(map(is_device_kind, shape.resources)):
            return None
        terms = parse_constraints(shape.constraints)
        able = self._able(shape, terms, is_now=True)
        if able is None or able >= shape.min_nodes:
            return None
        offers = [(name, self._offer_of[name]) for name in sorted(nodes)[:MOST_LOOKED_AT]]
        found = [
            f"{cut(name)}: {one.described_out(shape.resources)}"
            for name, one in offers
            if _could_run(one, shape, terms, name) and not one.now().holds(shape.resources)
        ]
        named, left = "; ".join(found[:MOST_NAMED]), len(found) - MOST_NAMED
        more = f" and {counted_nodes(left)} more" if left > 0 else ""
        return (
            f"the job asks for {described_request(shape)}, and {able or 'no'} node{'' if able == 1 else 's'} in"
            f" partition '{cut(shape.partition)}' can give that at present ({named}{more})"
        )

    def _able(self, shape: Shape, terms: Sequence[Requirement], *, is_now: bool = False) -> int | None:
        """How many nodes have all of it; None if there are too many kinds of nodes to look at.

        ``is_now``: without the devices that are out of use.
        """
        named = [term.values for term in terms if term.key == NODE and term.operator == "in"]
        if named:
            names = frozenset.intersection(*named)
            offers = [(name, self._offer_of.get(name, _NOWHERE)) for name in names]
            return sum(_could_run(one.now() if is_now else one, shape, terms, name) for name, one in offers)
        kinds = self._kinds[shape.partition]
        if len(kinds) > MOST_LOOKED_AT:
            return None
        others = [term for term in terms if term.key != NODE]
        return sum(number for one, number in kinds.values() if _could_run(one.now() if is_now else one, shape, others))

    def _about_amounts(self, shape: Shape) -> str | None:
        partition = shape.partition
        for kind, amount in shape.resources.items():
            most = self._most(partition, kind)
            if amount > most:
                asked, offer = compared(kind, amount, most)
                return (
                    f"the job asks for {kind} {asked} on a node, and no node in partition '{cut(partition)}' offers"
                    f" more than {offer}{self._spread(shape, kind, amount)}"
                )
        return None

    def _spread(self, shape: Shape, kind: str, amount: int) -> str:
        """What to write so that several nodes give equal parts of the devices; empty if too few nodes could."""
        if not is_device_kind(kind) or shape.min_nodes != shape.nodes:
            return ""
        offers = self._amounts.get((shape.partition, kind), Counter[int]())
        for parts in range(2, min(amount, MOST_PARTS) + 1):
            share, rest = divmod(amount, parts)
            able = 0 if rest else sum(number for offer, number in offers.items() if offer >= share)
            if able >= shape.nodes * parts:
                model, total = model_of(kind), amount * shape.nodes
                asked = f"{model}:{total}" if model else str(total)
                return f" (-N {shape.nodes * parts} --gpus {asked} spreads them over nodes)"
        return ""


def _could_run(offer: Offer, shape: Shape, terms: Sequence[Requirement], name: str | None = None) -> bool:
    is_here = offer.partition == shape.partition
    return is_here and offer.holds(shape.resources) and satisfied(terms, offer.labels, name or "")

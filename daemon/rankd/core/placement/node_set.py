"""The values of a partition's nodes that stay the same between cycles, and results that follow from them.

Resource types are columns of integer matrices (n_nodes, n_types + 1). The last column is for job slots: a node has
:data:`SLOTS` of them, a job takes one, and an exclusive job takes all. So "no other job on the node" is the same kind
of comparison as the others. Rows are in the order of the nodes' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from rankd.core.model.device import Device, DeviceState, is_device_kind, is_of, with_failed
from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import LARGEST, Resources
from rankd.core.placement.constraint import NODE, Requirement, parse_constraints, satisfied
from rankd.core.placement.device_layout import Asked
from rankd.core.placement.device_table import Layouts, asked_devices
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

SLOTS = 2**40
"""The job slots of a node: more than the jobs that any node can hold."""

_FACTS_KEPT = 50_000


class Held(msgspec.Struct, frozen=True):
    """The amounts that running jobs hold: ``rows`` int64 (n,) of the nodes, ``vectors`` int64 (n, n_types + 1).

    ``ends_at`` float64 (n,): when they will be free again, UTC seconds. Of devices, ``vectors`` count those that are
    ``ok``. ``devices``: the sets that are held, by row. ``free`` int64 (n_nodes, n_types + 1): what they leave free, if
    it is known already; not written to.
    """

    rows: IntArray
    vectors: IntArray
    ends_at: FloatArray
    devices: Mapping[int, int] = {}
    free: IntArray | None = None


class Demand:
    """A shape in a table's columns: the amounts that it takes on each node, and which nodes could hold it when empty.

    ``vector`` int64 (n_types + 1,): the amounts. ``pairs``: its positive entries (column, amount). ``able`` bool
    (n_nodes,): which nodes could hold it when empty. ``n_able``: their number. ``asked``: the devices, if it asks for
    any. ``of_any_model``: it does not name their model, so the rule decides on each node which columns of models it
    takes. ``others``: the amounts of all types except devices.
    """

    __slots__ = (
        "_classes",
        "_of_rows",
        "_rows",
        "asked",
        "n_able",
        "of_any_model",
        "others",
        "pairs",
        "shape",
        "vector",
    )

    def __init__(self, shape: Shape, vector: IntArray, classes: BoolArray, n_able: int, of_rows: IntArray) -> None:
        self.shape = shape
        self.vector = vector
        self.pairs = tuple((column, amount) for column, amount in enumerate(vector.tolist()) if amount > 0)
        self.n_able = n_able
        self.asked: Asked = asked_devices(shape.resources)
        self.others = {kind: amount for kind, amount in shape.resources.items() if not is_device_kind(kind)}
        self.of_any_model = bool(self.asked) and self.asked[0][0] is None
        self._classes = classes
        self._of_rows = of_rows
        self._rows: BoolArray | None = None

    @property
    def able(self) -> BoolArray:
        """Which nodes that are up could hold it when empty, by labels and capacity."""
        if self._rows is None:
            self._rows = self._classes[self._of_rows]
        return self._rows


class NodeSet:
    """The capacities, labels and states of nodes, and results that follow from them.

    Nodes that differ only in their names are in one class. Each question is answered once per class.

    A :class:`Demand` lives as long as its node set, and equal shapes have the same one. So its ``id()`` may be a key as
    long as the node set exists. The ``id()`` of a shape may be a key only if the shape is stored with it, which keeps
    the shape alive.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.types = sorted({kind for node in nodes for kind in (*node.capacity, *node.used)})
        self.columns = {kind: column for column, kind in enumerate(self.types)}
        self._device_columns = [(column, kind) for kind, column in self.columns.items() if is_device_kind(kind)]
        self.rows = {node.name: row for row, node in enumerate(self.nodes)}
        self.capacity = self.matrix([node.capacity for node in self.nodes])
        self.capacity[:, -1] = SLOTS
        layouts = Layouts()
        self.devices = [layouts.of(node.devices) for node in self.nodes]
        self._rows_out_of_use: dict[tuple[str, ...], IntArray] = {}
        self.device_rows = [row for row, devices in enumerate(self.devices) if devices is not None]
        self.whole = self._whole()
        self.up = np.array([node.state is NodeState.UP for node in self.nodes], dtype=bool)
        self.totals = totals(self.nodes)
        self.facts: dict[object, tuple[Shape, str]] = {}
        self._demands: dict[tuple[object, ...], Demand] = {}
        self._by_shape: dict[int, tuple[Shape, Demand]] = {}
        self._matching: dict[str | None, BoolArray] = {}
        classes: dict[object, int] = {}
        firsts: list[int] = []
        of_rows = []
        for row, node in enumerate(self.nodes):
            key = (tuple(node.capacity.items()), tuple(node.labels.items()), node.state)
            place = classes.setdefault(key, len(classes))
            if place == len(firsts):
                firsts.append(row)
            of_rows.append(place)
        self._of_rows = np.array(of_rows, dtype=np.int64)
        self._every = np.arange(len(self.nodes), dtype=np.int64)
        self._firsts = np.array(firsts, dtype=np.int64)
        self._sizes = np.bincount(self._of_rows, minlength=len(firsts))

    def keep_fact(self, key: object, shape: Shape, fact: str) -> None:
        """Store a fact for jobs of this shape. The shape is stored with it, because the key contains its ``id()``."""
        if len(self.facts) >= _FACTS_KEPT:
            self.facts.clear()
        self.facts[key] = (shape, fact)

    def matrix(self, rows: Sequence[Mapping[str, int]]) -> IntArray:
        """The amounts as columns, int64 (n, n_types + 1). The last column is 0. Types that no node has are left out."""
        matrix = np.zeros((len(rows), len(self.types) + 1), dtype=np.int64)
        for column, kind in enumerate(self.types):
            amounts = [row.get(kind, 0) for row in rows]
            try:
                matrix[:, column] = amounts
            except OverflowError:  # sums of amounts in evaluate documents
                matrix[:, column] = [min(amount, LARGEST) for amount in amounts]
        return matrix

    def _whole(self) -> IntArray:
        """The amounts that new jobs may get on empty nodes: the capacity without taken devices."""
        taken = [(row, own.taken) for row in self.device_rows if (own := self.devices[row]) is not None and own.taken]
        if not taken:
            return self.capacity
        whole = self.capacity.copy()
        whole[[row for row, _ in taken]] -= self.matrix([amounts for _, amounts in taken])
        return whole

    def correct(self, vectors: IntArray, rows: Sequence[int], held: Sequence[int]) -> None:
        """Replace the columns of devices by the number of those that are ``ok``, on nodes that list devices.

        ``vectors`` int64 (n, n_types + 1). ``rows`` and ``held``, of the same length: the nodes, and the sets.
        """
        for place, row in enumerate(rows):
            if (own := self.devices[row]) is not None:
                counted = own.layout.counted(own.ok & held[place])
                for column, kind in self._device_columns:
                    vectors[place, column] = counted.get(kind, 0)

    def demand(self, shape: Shape) -> Demand:
        """The demand of the shape. A shape object that was used before is found by its identity."""
        same = self._by_shape.get(id(shape))
        if same is not None and same[0] is shape:
            return same[1]
        found = self._demand_like(shape)
        if len(self._by_shape) >= _FACTS_KEPT:
            self._by_shape.clear()
        self._by_shape[id(shape)] = (shape, found)
        return found

    def _demand_like(self, shape: Shape) -> Demand:
        key = (tuple(sorted(shape.resources.items())), shape.constraints, shape.exclusive)
        found = self._demands.get(key)
        if found is None:
            vector = self.matrix([shape.resources])[0]
            vector[-1] = SLOTS if shape.exclusive else 1
            classes = self._able(shape, vector)
            named = self._named(shape.constraints)
            if named is None:
                found = Demand(shape, vector, classes, int(self._sizes[classes].sum()), self._of_rows)
            else:
                able = classes[self._of_rows] & named
                found = Demand(shape, vector, able, int(able.sum()), self._every)
            self._demands[key] = found
        return found

    def _named(self, constraints: str | None) -> BoolArray | None:
        """Which nodes have a name that the terms about names allow, bool (n_nodes,); None if there are none."""
        found: BoolArray | None = None
        for term in parse_constraints(constraints):
            if term.key == NODE:
                own = self._allowed(term)
                found = own if found is None else found & own
        return found

    def _allowed(self, term: Requirement) -> BoolArray:
        """Which nodes have a name that this term allows. It takes time for each of its names, not for each node."""
        others = term.operator in ("notin", "exists")
        found = np.full(len(self.nodes), others)
        found[[self.rows[name] for name in term.values if name in self.rows]] = not others
        return found

    @cached_property
    def most_free(self) -> IntArray:
        """For each column, the most that any node that is up has free when it is empty, int64 (n_types + 1,)."""
        most: IntArray = self.whole[self.up].max(axis=0, initial=0)
        return most

    def matching(self, constraints: str | None) -> BoolArray:
        """Which nodes meet the constraints, whatever their states, bool (n_nodes,)."""
        found, named = self._classes_matching(constraints)[self._of_rows], self._named(constraints)
        return found if named is None else found & named

    def later(self, shape: Shape) -> list[Node]:
        """The nodes that could hold the shape once they are up and their failed devices are offered again."""
        if any(kind not in self._kinds_later for kind in shape.resources):
            return []
        rows, capacity = self._obstructed
        if not len(rows):
            return []
        columns = [self._kinds_later.index(kind) for kind in shape.resources]
        enough = (capacity[:, columns] >= np.array([min(amount, LARGEST) for amount in shape.resources.values()])).all(
            axis=1
        )
        fits = rows[enough & self.matching(shape.constraints)[rows]]
        return [self.nodes[row] for row in fits.tolist()]

    def rows_out_of_use(self, kinds: Sequence[str]) -> IntArray:
        """The nodes with a device of these types that is not ``ok``, int64 (n,), ascending."""
        key = tuple(kinds)
        if key not in self._rows_out_of_use:
            if len(self._rows_out_of_use) >= _FACTS_KEPT:
                self._rows_out_of_use.clear()
            rows = [row for row, out in self._out_of_use if any(is_of(device, kinds) for device in out)]
            self._rows_out_of_use[key] = np.array(rows, dtype=np.int64)
        return self._rows_out_of_use[key]

    @cached_property
    def _out_of_use(self) -> list[tuple[int, list[Device]]]:
        """The rows of nodes with devices that are not ``ok``, and these devices."""
        rows = [row for row in self.device_rows if (own := self.devices[row]) and own.ok.bit_count() < len(own.ids)]
        return [(row, [one for one in self.nodes[row].devices if one.state is not DeviceState.OK]) for row in rows]

    @cached_property
    def _kinds_later(self) -> list[str]:
        """The types that nodes offer now, or once their failed devices are offered again."""
        failed = {kind for node in self.nodes if node.devices for kind in with_failed({}, node.devices)}
        return sorted({*self.types, *failed})

    @cached_property
    def _obstructed(self) -> tuple[IntArray, IntArray]:
        """The nodes that are not up, or have failed devices: rows int64 (n,), and their capacities without that."""
        rows = [row for row, node in enumerate(self.nodes) if _is_obstructed(node)]
        whole = [with_failed(self.nodes[row].capacity, self.nodes[row].devices) for row in rows]
        amounts = [[min(capacity.get(kind, 0), LARGEST) for kind in self._kinds_later] for capacity in whole]
        capacity = np.array(amounts, dtype=np.int64).reshape(len(rows), len(self._kinds_later))
        return np.array(rows, dtype=np.int64), capacity

    def _able(self, shape: Shape, vector: IntArray) -> BoolArray:
        """Which classes have nodes that are up and could hold the shape when empty, bool (n_classes,)."""
        if any(kind not in self.columns for kind in shape.resources):
            return np.zeros(len(self._firsts), dtype=bool)
        able: BoolArray = (self.capacity[self._firsts] >= vector).all(axis=1) & self.up[self._firsts]
        return able & self._classes_matching(shape.constraints)

    def _classes_matching(self, constraints: str | None) -> BoolArray:
        """Which classes have the labels that the constraints name, bool (n_classes,)."""
        if constraints not in self._matching:
            terms = [term for term in parse_constraints(constraints) if term.key != NODE]
            matching = [satisfied(terms, self.nodes[row].labels) for row in self._firsts.tolist()]
            self._matching[constraints] = np.array(matching, dtype=bool)
        return self._matching[constraints]


def _is_obstructed(node: Node) -> bool:
    return node.state is not NodeState.UP or any(device.state is DeviceState.FAILED for device in node.devices)


def rows_fitting(free: IntArray, demand: Demand) -> BoolArray:
    """Which rows of ``free``, int64 (n, n_types + 1), have enough free; bool (n,).

    One comparison per type asked for.
    """
    fits: BoolArray | None = None
    for column, amount in demand.pairs:
        enough = free[:, column] >= amount
        fits = enough if fits is None else fits & enough
    return np.ones(len(free), dtype=bool) if fits is None else fits


def totals(nodes: Iterable[Node]) -> Resources:
    """The sum of the capacities of nodes that are up or draining."""
    total: Resources = {}
    for node in nodes:
        if node.state in (NodeState.UP, NodeState.DRAINING):
            for kind, amount in node.capacity.items():
                total[kind] = total.get(kind, 0) + amount
    return total

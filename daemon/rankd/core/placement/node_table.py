"""The nodes of one partition as columns: their free amounts, which of them fit, and which are chosen.

Columns and rows are those of the nodes' :class:`.NodeSet`. Nodes that fit are ordered by the policy's key, ascending,
then by name. Utilisation is rounded to 12 decimals, so that equal nodes have equal keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from rankd.core.model.device import is_device_kind
from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources, add_amounts, scaled
from rankd.core.placement.device_table import DeviceTable
from rankd.core.placement.node_set import SLOTS, Demand, Held, NodeSet, rows_fitting
from rankd.core.placement.problem import Hold
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

_SCALE = 1e12
"""Utilisation is rounded to 12 decimals."""


@runtime_checkable
class NodeSortPolicy(Protocol):
    """A plugin of the entry-point group ``rankd.node_sort``: its ``name``, and the sort key of nodes.

    It is constructed without arguments, once per service.
    """

    name: str

    def key(self, utilisation: FloatArray) -> FloatArray:
        """The sort keys of nodes (the smallest is first) from their utilisation: 0 for empty nodes, 1 for full ones.

        Input and output have the shape (n,). The output must not contain NaN. Each key must depend only on the
        utilisation of its own node, because a node's key is computed again, alone, when a job starts there. The
        utilisation is more than 1 if a node has shrunk below its allocated amounts.
        """


class Share(NamedTuple):
    """The amounts that a job takes on a node, int64 (n_types + 1,), and the set of its devices there."""

    vector: IntArray
    devices: int = 0


class NodeTable:
    """The nodes of a partition during one cycle. :meth:`occupy` takes their amounts. ``free`` may be negative.

    With a `Held`, its amounts are all that is used. Otherwise the ``used`` of each node counts, and the devices that
    ``holds`` name. ``billing``: the prices of devices.
    """

    def __init__(
        self,
        nodes: Sequence[Node] | NodeSet,
        policy: NodeSortPolicy,
        weights: Mapping[str, float],
        holds: Iterable[Hold] | Held = (),
        billing: Mapping[str, float] | None = None,
    ) -> None:
        self.set = nodes if isinstance(nodes, NodeSet) else NodeSet(nodes)
        self.nodes, self.types, self.rows = self.set.nodes, self.set.types, self.set.rows
        self.capacity, self.up = self.set.capacity, self.set.up
        self.whole = self.set.whole
        self._policy = policy
        self._weighed = [(column, w) for column, kind in enumerate(self.types) if (w := weights.get(kind, 0.0)) > 0]
        self.is_held_only = isinstance(holds, Held)
        """Whether nothing is used but what jobs hold."""
        self.held = holds if isinstance(holds, Held) else self._held(holds)
        self.free = self._free()
        if not self.is_held_only:
            self._fill_slots()
        self.devices = DeviceTable(self.set.devices, self.held.devices, billing or {})
        self._vectors: dict[tuple[int, int], tuple[Resources, IntArray]] = {}
        """Vectors by the ids of a demand and of amounts. The amounts are stored with them, which keeps the id."""
        self._has_order = len(self.nodes) > 1
        """Whether keys matter: one node has no order."""
        self.keys = policy.key(self.utilisation()) if self._has_order else np.zeros(len(self.nodes))

    def _free(self) -> IntArray:
        """What is free, without the slots of jobs if there is no :class:`.Held`."""
        if self.held.free is not None:
            return self.held.free.copy(order="F")
        free = self.whole.copy(order="F")  # compared column by column
        if self.is_held_only:
            np.subtract.at(free, self.held.rows, self.held.vectors)
        else:
            free -= self._used()
        return free

    def _held(self, holds: Iterable[Hold]) -> Held:
        known = [(row, hold) for hold in holds if (row := self.rows.get(hold.node)) is not None]
        vectors = self.set.matrix([hold.resources for _, hold in known])
        vectors[:, -1] = [SLOTS if hold.exclusive else 1 for _, hold in known]
        ends_at = np.array([hold.ends_at for _, hold in known], dtype=np.float64)
        rows = [row for row, _ in known]
        sets = [own.set_of(hold.devices) if (own := self.set.devices[row]) else 0 for row, hold in known]
        self.set.correct(vectors, rows, sets)
        devices: dict[int, int] = {}
        for row, held in zip(rows, sets, strict=True):
            devices[row] = devices.get(row, 0) | held
        return Held(np.array(rows, dtype=np.int64), vectors, ends_at, devices)

    def _used(self) -> IntArray:
        """The used amounts of each node. Of nodes that list devices, those that are held."""
        used, rows = self.set.matrix([node.used for node in self.nodes]), self.set.device_rows
        if rows:
            own = used[rows]
            self.set.correct(own, rows, [self.held.devices.get(row, 0) for row in rows])
            used[rows] = own
        return used

    def _fill_slots(self) -> None:
        """Take one slot per job, and one if other amounts are used on the node than those of its jobs."""
        rows, vectors = self.held.rows, self.held.vectors
        unexplained = self.whole - self.free
        np.subtract.at(unexplained, rows, vectors)
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        np.add.at(slots, rows, vectors[:, -1])
        slots += (unexplained[:, :-1] > 0).any(axis=1)
        self.free[:, -1] = SLOTS - slots
        if (unexplained[:, :-1] < 0).any():
            self._give_back_no_more_than_is_used()

    def _give_back_no_more_than_is_used(self) -> None:
        """If a node's ``used`` is less than the sum of its jobs, reduce the amounts of the jobs that end last."""
        held, left = self.held, self.whole - self.free
        for place in np.argsort(held.ends_at, kind="stable").tolist():
            row = held.rows[place]
            held.vectors[place] = np.minimum(held.vectors[place], np.maximum(left[row], 0))
            left[row] -= held.vectors[place]

    def utilisation(self) -> FloatArray:
        """The weighted mean of used / total, over each node's types with a weight; 0 for a node without such types."""
        return self._utilisation(self.free, self.capacity)

    def _utilisation(self, free: IntArray, capacity: IntArray) -> FloatArray:
        weighted, total = np.zeros(len(free)), np.zeros(len(free))
        for column, weight in self._weighed:
            has = capacity[:, column] > 0
            part = np.divide(free[:, column], capacity[:, column], out=np.ones(len(has)), where=has)
            weighted += np.where(has, weight * (1.0 - part), 0.0)
            total += np.where(has, weight, 0.0)
        mean = np.divide(weighted, total, out=np.zeros_like(total), where=total > 0)
        rounded: FloatArray = np.rint(mean * _SCALE) / _SCALE
        return rounded

    def _key(self, free: Sequence[int], capacity: Sequence[int]) -> float:
        """One node's key, by the same operations in the same order as :meth:`utilisation`, for the same float64."""
        weighted = total = 0.0
        for column, weight in self._weighed:
            most = capacity[column]
            if most > 0:
                weighted += weight * (1.0 - float(free[column]) / float(most))
                total += weight
        mean = weighted / total if total > 0 else 0.0
        return float(self._policy.key(np.array([round(mean * _SCALE) / _SCALE]))[0])

    def demand(self, shape: Shape) -> Demand:
        """The shape in this table's columns."""
        return self.set.demand(shape)

    def fitting(self, demand: Demand) -> BoolArray:
        """Which nodes have room now."""
        return demand.able & rows_fitting(self.free, demand)

    def best(self, which: BoolArray, most: int) -> list[int]:
        """The first ``most`` of these rows, in the nodes' order."""
        rows = np.flatnonzero(which)
        if most < len(rows) // 8:
            keys = self.keys[rows]
            rows = rows[keys <= np.partition(keys, most - 1)[most - 1]] if most > 0 else rows[:0]
        chosen: list[int] = rows[np.argsort(self.keys[rows], kind="stable")][:most].tolist()
        return chosen

    def amounts(self, rows: Sequence[int], shape: Shape) -> Resources:
        """The amounts that the shape takes on these nodes together. An exclusive one takes whole nodes.

        Of devices without a named model, the result has only the sum.
        """
        if not shape.exclusive:
            return scaled(shape.resources, len(rows))
        whole = self.whole[list(rows), :-1].tolist()
        return {kind: sum(row[column] for row in whole) for column, kind in enumerate(self.types)}

    def given(self, rows: Sequence[int], demand: Demand, shares: Sequence[Share]) -> Resources:
        """The amounts of a job with these shares on these nodes, with the models of its devices."""
        if len(rows) == 1 and shares[0].devices and not demand.shape.exclusive:
            return demand.others | self.devices.amounts(rows[0], shares[0].devices)
        total = self.amounts(rows, demand.shape)
        if not any(share.devices for share in shares):
            return total
        total = {kind: amount for kind, amount in total.items() if not is_device_kind(kind)}
        for row, share in zip(rows, shares, strict=True):
            if share.devices:
                add_amounts(total, self.devices.amounts(row, share.devices))
            else:
                counted = {kind: n for kind, n in self.amounts([row], demand.shape).items() if is_device_kind(kind)}
                add_amounts(total, counted)
        return total

    def shares(self, rows: Sequence[int], demand: Demand) -> list[Share]:
        """The shares that the demand would take now."""
        if not demand.asked and not demand.shape.exclusive:
            return [Share(demand.vector)] * len(rows)
        return [self.share(row, demand) for row in rows]

    def share(self, row: int, demand: Demand) -> Share:
        """The share that the demand would take of this node now. An exclusive one takes the whole node."""
        if demand.shape.exclusive:
            return Share(self.whole[row], self.devices.free(row))
        chosen = self.devices.choose(row, demand.asked) if demand.asked else 0
        if not chosen or not demand.of_any_model:
            return Share(demand.vector, chosen)
        return Share(self._with_models(demand, self.devices.amounts(row, chosen)), chosen)

    def _with_models(self, demand: Demand, amounts: Resources) -> IntArray:
        """The demand's vector with these amounts of devices."""
        key = (id(demand), id(amounts))
        found = self._vectors.get(key)
        if found is None or found[0] is not amounts:
            vector = demand.vector.copy()
            for kind, amount in amounts.items():
                vector[self.set.columns[kind]] = amount
            found = self._vectors[key] = (amounts, vector)
        return found[1]

    def occupy(self, row: int, share: Share) -> None:
        """Take a share of this node."""
        self.free[row] -= share.vector
        if self._has_order:
            self.keys[row] = self._key(self.free[row].tolist(), self.capacity[row].tolist())
        if share.devices:
            self.devices.take(row, share.devices)

    def occupy_all(self, rows: IntArray, shares: Sequence[Share]) -> None:
        """Take one share of each of these nodes, int64 (n,), without duplicates."""
        is_same = all(share.vector is shares[0].vector for share in shares)
        self.free[rows] -= shares[0].vector if is_same else np.array([share.vector for share in shares])
        if self._has_order:
            self.keys[rows] = self._policy.key(self._utilisation(self.free[rows], self.capacity[rows]))
        for row, share in zip(rows.tolist(), shares, strict=True):
            if share.devices:
                self.devices.take(row, share.devices)

    def device_ids(self, rows: Sequence[int], shares: Sequence[Share]) -> dict[str, tuple[str, ...]]:
        """The ids of the devices of these shares, by node."""
        return {
            self.nodes[row].name: self.devices.ids(row, share.devices)
            for row, share in zip(rows, shares, strict=True)
            if share.devices
        }

    def names(self, rows: Iterable[int]) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(self.nodes[row].name for row in rows)

    def in_order(self) -> list[tuple[str, float]]:
        """The nodes that are up, as (name, utilisation), the first to be chosen first."""
        utilisation = self.utilisation()
        return [(self.nodes[row].name, float(utilisation[row])) for row in self.best(self.up, len(self.nodes))]

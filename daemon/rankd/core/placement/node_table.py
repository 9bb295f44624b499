"""The nodes of one partition as columns: what is free, what fits, which is chosen.

Columns and rows are those of the nodes' :class:`.NodeSet`. Order among nodes that fit: the policy's key ascending,
then name; utilisation is rounded to 12 decimals, so that equal nodes tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources, scaled
from rankd.core.placement.node_set import SLOTS, Demand, Held, NodeSet, rows_fitting
from rankd.core.placement.problem import Hold
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

_SCALE = 1e12
"""Utilisation is rounded to 12 decimals."""


@runtime_checkable
class NodeSortPolicy(Protocol):
    """A plugin of the entry-point group ``rankd.node_sort``: ``name``, and the key that nodes are sorted by.

    It is built without arguments, once per service.
    """

    name: str

    def key(self, utilisation: FloatArray) -> FloatArray:
        """Sort keys of nodes, ascending, from their utilisation: 0 for empty nodes, 1 for full ones.

        Shape (n,) in and out, no NaN out. Element by element: a node's key is asked for again, alone, whenever
        something starts there. Over 1 where a node has shrunk below what is allocated on it.
        """


class NodeTable:
    """The nodes of a partition during one cycle; :meth:`take` uses them up. ``free`` may be below 0.

    Of nodes as such, ``used`` counts as they state it; with a `Held`, what it says is all that is used.
    """

    def __init__(
        self,
        nodes: Sequence[Node] | NodeSet,
        policy: NodeSortPolicy,
        weights: Mapping[str, float],
        holds: Iterable[Hold] | Held = (),
    ) -> None:
        self.set = nodes if isinstance(nodes, NodeSet) else NodeSet(nodes)
        self.nodes, self.types, self.rows = self.set.nodes, self.set.types, self.set.rows
        self.capacity, self.up = self.set.capacity, self.set.up
        self.free = self.capacity.copy(order="F")  # compared column by column
        if not isinstance(holds, Held):
            self.free -= self.set.matrix([node.used for node in self.nodes])
        self._policy = policy
        self._weighed = [(column, w) for column, kind in enumerate(self.types) if (w := weights.get(kind, 0.0)) > 0]
        if isinstance(holds, Held):
            self.held = holds
            np.subtract.at(self.free, holds.rows, holds.vectors)
        else:
            self.held = self._held(holds)
            self._fill_slots()
        self.keys = policy.key(self.utilisation()) if self.nodes else np.empty(0)

    def _held(self, holds: Iterable[Hold]) -> Held:
        known = [(row, hold) for hold in holds if (row := self.rows.get(hold.node)) is not None]
        vectors = self.set.matrix([hold.resources for _, hold in known])
        vectors[:, -1] = [SLOTS if hold.exclusive else 1 for _, hold in known]
        ends_at = np.array([hold.ends_at for _, hold in known], dtype=np.float64)
        return Held(np.array([row for row, _ in known], dtype=np.int64), vectors, ends_at)

    def _fill_slots(self) -> None:
        """A slot per job; one for use that no job accounts for."""
        rows, vectors = self.held.rows, self.held.vectors
        unexplained = self.capacity - self.free
        np.subtract.at(unexplained, rows, vectors)
        slots = np.zeros(len(self.nodes), dtype=np.int64)
        np.add.at(slots, rows, vectors[:, -1])
        slots += (unexplained[:, :-1] > 0).any(axis=1)
        self.free[:, -1] = SLOTS - slots
        if (unexplained[:, :-1] < 0).any():
            self._give_back_no_more_than_is_used()

    def _give_back_no_more_than_is_used(self) -> None:
        """Less may be stated to be used than the jobs have: then the last of them to end have less."""
        held, left = self.held, self.capacity - self.free
        for place in np.argsort(held.ends_at, kind="stable").tolist():
            row = held.rows[place]
            held.vectors[place] = np.minimum(held.vectors[place], np.maximum(left[row], 0))
            left[row] -= held.vectors[place]

    def utilisation(self) -> FloatArray:
        """Weighted mean of used over total, over each node's own types with a weight; none: 0."""
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
        """One node's key: the operations of :meth:`utilisation`, one by one, so that both give the same float64."""
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
        """The first so many of these rows in the nodes' order."""
        rows = np.flatnonzero(which)
        if most < len(rows) // 8:
            keys = self.keys[rows]
            rows = rows[keys <= np.partition(keys, most - 1)[most - 1]] if most > 0 else rows[:0]
        chosen: list[int] = rows[np.argsort(self.keys[rows], kind="stable")][:most].tolist()
        return chosen

    def amounts(self, rows: Sequence[int], shape: Shape) -> Resources:
        """What the shape takes on these nodes together; an exclusive one takes them whole."""
        if not shape.exclusive:
            return scaled(shape.resources, len(rows))
        whole = self.capacity[list(rows), :-1].tolist()
        return {kind: sum(row[column] for row in whole) for column, kind in enumerate(self.types)}

    def occupy(self, row: int, demand: Demand) -> None:
        """Use up what the shape asks for on this node; an exclusive one takes it whole."""
        self.free[row] -= self.capacity[row] if demand.shape.exclusive else demand.vector
        self.keys[row] = self._key(self.free[row].tolist(), self.capacity[row].tolist())

    def occupy_all(self, rows: IntArray, demand: Demand) -> None:
        """Use up what the shape asks for on each of these nodes, int64 (n,), none of them twice."""
        capacity = self.capacity[rows]
        self.free[rows] -= capacity if demand.shape.exclusive else demand.vector
        self.keys[rows] = self._policy.key(self._utilisation(self.free[rows], capacity))

    def names(self, rows: Iterable[int]) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(self.nodes[row].name for row in rows)

    def in_order(self) -> list[tuple[str, float]]:
        """Names of the nodes that are up with their utilisation, the first to be chosen first."""
        utilisation = self.utilisation()
        return [(self.nodes[row].name, float(utilisation[row])) for row in self.best(self.up, len(self.nodes))]

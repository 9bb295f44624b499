"""The nodes of one partition as columns: what is free, what fits, which is chosen.

Resource types are columns of integer matrices (n_nodes, n_types). Order among nodes that fit: the policy's
key ascending, then name; utilisation is rounded to 12 decimals, so that equal nodes tie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rankd.core.model.node import Node, NodeState
from rankd.core.placement.constraint import parse_constraints, satisfied
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

DECIMALS = 12


class NodeSortPolicy(Protocol):
    """A plugin of the entry-point group ``rankd.node_sort``."""

    name: str

    def key(self, utilisation: FloatArray) -> FloatArray:
        """Sort keys of nodes, ascending, from their utilisation in [0, 1]. Shape (n,) in and out."""


class NodeTable:
    """The nodes of a partition during one cycle; :meth:`take` uses them up."""

    def __init__(self, nodes: Sequence[Node], policy: NodeSortPolicy, weights: Mapping[str, float]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.types = sorted({kind for node in nodes for kind in (*node.capacity, *node.used)})
        self.capacity = self._matrix([node.capacity for node in self.nodes])
        self.used = self._matrix([node.used for node in self.nodes])
        self.up = np.array([node.state is NodeState.UP for node in self.nodes], dtype=bool)
        self._policy = policy
        self._weights = np.array([weights.get(kind, 0.0) for kind in self.types])
        self._labelled: dict[str | None, BoolArray] = {}
        self._keys = self._sort_keys(slice(None)) if self.nodes else np.empty(0)

    def _matrix(self, rows: Sequence[Mapping[str, int]]) -> IntArray:
        matrix = [[row.get(kind, 0) for kind in self.types] for row in rows]
        return np.array(matrix, dtype=np.int64).reshape(len(rows), len(self.types))

    def utilisation(self, which: slice | NDArray[np.intp] = slice(None)) -> FloatArray:
        """Weighted mean of used over total, over the node's own types with a weight; none: 0."""
        capacity, used = self.capacity[which], self.used[which]
        weights = np.where(capacity > 0, self._weights, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            available = np.where(capacity > 0, (capacity - used) / capacity, 0.0)
        total = weights.sum(axis=1)
        weighted = (weights * (1.0 - available)).sum(axis=1)
        rounded: FloatArray = np.round(np.divide(weighted, total, out=np.zeros_like(total), where=total > 0), DECIMALS)
        return rounded

    def _sort_keys(self, which: slice | NDArray[np.intp]) -> FloatArray:
        return self._policy.key(self.utilisation(which))

    def could_hold(self, shape: Shape) -> BoolArray:
        """Which nodes that are up could hold the shape when empty, by labels and capacity."""
        return self.up & self._matching(shape.constraints) & self._enough(self.capacity, shape)

    def fitting(self, shape: Shape) -> BoolArray:
        """Which nodes have room for the shape now."""
        fits = self.up & self._matching(shape.constraints) & self._enough(self.capacity - self.used, shape)
        return fits & (self.used == 0).all(axis=1) if shape.exclusive else fits

    def _matching(self, constraints: str | None) -> BoolArray:
        if constraints not in self._labelled:
            terms = parse_constraints(constraints)
            matching = [satisfied(terms, node.labels) for node in self.nodes]
            self._labelled[constraints] = np.array(matching, dtype=bool)
        return self._labelled[constraints]

    def _enough(self, amounts: IntArray, shape: Shape) -> BoolArray:
        if any(kind not in self.types for kind in shape.resources):
            return np.zeros(len(self.nodes), dtype=bool)
        wanted = np.array([shape.resources.get(kind, 0) for kind in self.types], dtype=np.int64)
        return np.asarray((amounts >= wanted).all(axis=1))

    def choose(self, shape: Shape, room: Mapping[str, int] | None = None) -> list[int]:
        """Places of the nodes that the shape gets now, best first; empty if fewer than ``min_nodes`` fit.

        ``room`` is what quotas leave, by type: a job that may do with fewer nodes stays within it, and an
        exclusive one, which counts whole nodes, takes those that do. One node of any other always does.
        """
        places = np.flatnonzero(self.fitting(shape))
        if len(places) < shape.min_nodes:
            return []
        if shape.nodes == 1 and not shape.exclusive:
            return [int(places[np.argmin(self._keys[places])])]
        best = places[np.argsort(self._keys[places], kind="stable")].tolist()
        if shape.exclusive:
            chosen = self._whole_within(best, shape, room or {})
        else:
            chosen = best[: _within(room or {}, shape.resources, shape.nodes)]
        return chosen if len(chosen) >= shape.min_nodes else []

    def _whole_within(self, places: Sequence[int], shape: Shape, room: Mapping[str, int]) -> list[int]:
        """The first places that together stay within the room though they count whole, up to ``nodes`` of them."""
        left, chosen = room, list[int]()
        for place in places:
            whole = self.amounts([place], shape)
            if _within(left, whole, 1):
                left = {kind: amount - whole.get(kind, 0) for kind, amount in left.items()}
                chosen.append(place)
            if len(chosen) == shape.nodes:
                break
        return chosen

    def amounts(self, places: Sequence[int], shape: Shape) -> dict[str, int]:
        """What the shape takes on these nodes together; an exclusive one takes them whole."""
        if not shape.exclusive:
            return {kind: amount * len(places) for kind, amount in shape.resources.items()}
        sums = self.capacity[list(places)].sum(axis=0).tolist()
        return dict(zip(self.types, sums, strict=True))

    def take(self, places: Sequence[int], shape: Shape) -> None:
        """Use up what the shape asks for on these nodes; an exclusive one takes them whole."""
        where = np.array(places, dtype=np.intp)
        wanted = np.array([shape.resources.get(kind, 0) for kind in self.types], dtype=np.int64)
        self.used[where] = self.capacity[where] if shape.exclusive else self.used[where] + wanted
        self._keys[where] = self._sort_keys(where)

    def in_order(self) -> list[tuple[str, float]]:
        """Names of the nodes that are up with their utilisation, the first to be chosen first."""
        order = [place for place in np.argsort(self._keys, kind="stable").tolist() if self.up[place]]
        utilisation = self.utilisation()
        return [(self.nodes[place].name, float(utilisation[place])) for place in order]

    def totals(self) -> dict[str, int]:
        """Sum of the capacities of nodes that are up or draining: the denominators of shares."""
        counted = [node.state in (NodeState.UP, NodeState.DRAINING) for node in self.nodes]
        if not any(counted):
            return {}
        sums = self.capacity[np.array(counted)].sum(axis=0)
        return {kind: int(amount) for kind, amount in zip(self.types, sums, strict=True)}


def _within(room: Mapping[str, int], amounts: Mapping[str, int], most: int) -> int:
    """How many times so much there is room for, from 0 up to ``most``."""
    times = [room[kind] // amount for kind, amount in amounts.items() if amount and kind in room]
    return max(0, min([most, *times]))

"""What jobs hold on the nodes of a partition while a forecast runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.model.device import with_models
from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.node_set import SLOTS, Held, NodeSet
from rankd.core.placement.problem import Placement
from rankd.core.placement.request import Shape
from rankd.core.ranking.columns import IntArray


class Given(NamedTuple):
    """What a placed job gets: rows of nodes, int64 (n, n_types + 1) amounts there, its total, and sets of devices."""

    rows: list[int]
    vectors: IntArray
    amount: Resources
    devices: Mapping[int, int]


def given(nodes: NodeSet, shape: Shape, placement: Placement) -> Given:
    """What a placement gives, as the scheduler's memory counts an allocation."""
    rows = [nodes.rows[name] for name in placement.nodes]
    if not shape.exclusive and not placement.devices:
        vectors = np.repeat(nodes.demand(shape).vector[np.newaxis], len(rows), axis=0)
        return Given(rows, vectors, {kind: value * len(rows) for kind, value in shape.resources.items()}, {})
    per_node = [nodes.nodes[row].capacity if shape.exclusive else shape.resources for row in rows]
    sets: dict[int, int] = {}
    for place, (row, name) in enumerate(zip(rows, placement.nodes, strict=True)):
        own, held = nodes.devices[row], placement.devices.get(name, ())
        if own is not None and held:
            sets[row] = own.set_of(held)
            per_node[place] = with_models(per_node[place], [own.models[own.places[id_]] for id_ in held])
    vectors = nodes.matrix(per_node)
    nodes.correct(vectors, rows, [sets.get(row, 0) for row in rows])
    vectors[:, -1] = SLOTS if shape.exclusive else 1
    total: Resources = {}
    for amounts in per_node:
        add_amounts(total, amounts)
    return Given(rows, vectors, total, sets)


class Holdings:
    """The rows of all jobs that run, by owner. ``free`` int64 (n_nodes, n_types + 1): what nodes have free."""

    def __init__(self, nodes: NodeSet, held: Held, owners: IntArray) -> None:
        self._held = held
        self._owners = owners
        self._devices: dict[int, int] = dict(held.devices)
        self.free = nodes.whole.copy()
        np.subtract.at(self.free, held.rows, held.vectors)

    def held(self) -> Held:
        """All rows, for a cycle. Limits, not expectations, say when they end: the scheduler knows no more."""
        return Held(self._held.rows, self._held.vectors, self._held.ends_at, dict(self._devices))

    def start(self, owners: Sequence[int], given_: Sequence[Given], limits_s: Sequence[float], now: float) -> None:
        """Jobs start. ``owners``: their numbers, each used once."""
        counts = [len(one.rows) for one in given_]
        rows = np.array([row for one in given_ for row in one.rows], dtype=np.int64)
        vectors = np.concatenate([one.vectors for one in given_])
        held = self._held
        self._held = Held(
            np.concatenate([held.rows, rows]),
            np.concatenate([held.vectors, vectors]),
            np.concatenate([held.ends_at, np.repeat(now + np.array(limits_s, dtype=np.float64), counts)]),
        )
        self._owners = np.concatenate([self._owners, np.repeat(np.array(owners, dtype=np.int64), counts)])
        np.subtract.at(self.free, rows, vectors)
        for one in given_:
            for row, devices in one.devices.items():
                self._devices[row] = self._devices.get(row, 0) | devices

    def end(self, owners: Sequence[int], devices: Sequence[Mapping[int, int]]) -> None:
        """Jobs end. ``devices``: the sets that each of them held."""
        gone = np.isin(self._owners, np.array(owners, dtype=np.int64))
        np.add.at(self.free, self._held.rows[gone], self._held.vectors[gone])
        left, held = ~gone, self._held
        self._held = Held(held.rows[left], held.vectors[left], held.ends_at[left])
        self._owners = self._owners[left]
        for of_job in devices:
            for row, own in of_job.items():
                self._devices[row] = self._devices.get(row, 0) & ~own


def limit_of(limit_s: float | None) -> float:
    """A time limit in seconds; infinite for none."""
    return math.inf if limit_s is None else limit_s

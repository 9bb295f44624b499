"""Open allocations as the scheduler keeps them, by node, queue, application and user.

The details of an allocation are read once. After that, only the list of open allocations is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.node_set import SLOTS, Held, NodeSet
from rankd.core.placement.problem import Tenant
from rankd.core.ranking.columns import NO_GROUP, IntArray
from rankd.store.feed.occupancy import OpenAllocation, Since
from rankd.store.record.allocation_device import HeldDevice, models_by_node, used_on


class _Holding(NamedTuple):
    """An allocation as cycles need it: rows and resources of its partition's nodes, its time limit, its owner."""

    partition: str
    rows: IntArray
    vectors: IntArray
    limit_s: float
    tenant: Tenant
    array: int | None
    devices: Mapping[int, int] = {}
    """The sets of its devices, by row."""


class Opened(NamedTuple):
    """An open allocation, for forecasts. ``rows``: how many rows of its partition's nodes it has.

    ``limit_s`` is infinite without a time limit. ``array``: of a task, its array. ``devices``: sets by row.
    """

    id: int
    begun_at: float
    limit_s: float
    tenant: Tenant
    array: int | None
    rows: int
    devices: Mapping[int, int]


class Occupancy:
    """Open allocations. ``default_limit_s`` is the time limit of jobs without one."""

    def __init__(self, default_limit_s: float | None) -> None:
        self._default = math.inf if default_limit_s is None else default_limit_s
        self._sets: Mapping[str, NodeSet] = {}
        self._open: dict[int, _Holding] = {}
        self._listed: list[Since] = []
        self._begun: dict[int, float] = {}
        self._held: dict[str, Held] = {}
        self.by_queue: dict[int, Resources] = {}
        self.by_application: dict[int, Resources] = {}
        self.by_array: Counter[int] = Counter()
        """How many tasks of each array have open allocations."""

    def follow(self, listed: list[Since], sets: Mapping[str, NodeSet]) -> list[int]:
        """Forget ended allocations; returns those whose details :meth:`add` needs.

        ``sets``: the nodes by partition. The same object means that the nodes are the same. With another object,
        everything is forgotten.
        """
        if sets is self._sets and listed == self._listed:
            return []
        self._listed, self._held = listed, {}
        if sets is not self._sets:
            self._sets = sets
            self._open.clear()
            self.by_queue.clear()
            self.by_application.clear()
            self.by_array.clear()
        self._begun = dict(listed)
        for gone in self._open.keys() - self._begun.keys():
            self._count(self._open.pop(gone), -1)
        return [id_ for id_ in self._begun if id_ not in self._open]

    def forget(self, allocations: Iterable[int]) -> None:
        """Forget these allocations: their details have changed. The next :meth:`follow` returns those still open."""
        for id_ in allocations:
            if (holding := self._open.pop(id_, None)) is not None:
                self._count(holding, -1)
                self._listed, self._held = [], {}

    def add(self, allocations: Iterable[OpenAllocation]) -> None:
        """Add allocations that :meth:`follow` returned."""
        for allocation in allocations:
            holding = self._open[allocation.id] = self._holding(allocation)
            self._count(holding, 1)

    def _holding(self, allocation: OpenAllocation) -> _Holding:
        own = self._sets.get(allocation.partition)
        if own is None:
            return self._of_lost_partition(allocation)
        rows = [own.rows[name] for name in allocation.nodes if name in own.rows]
        per_node = (
            [dict(own.nodes[row].capacity) for row in rows]
            if allocation.exclusive
            else [allocation.resources] * len(rows)
        )
        sets: dict[int, int] = {}
        if allocation.devices:
            per_node = _with_models(per_node, [own.nodes[row].name for row in rows], allocation.devices)
            sets = _sets(own, rows, allocation.devices)
        vectors = own.matrix(per_node)
        own.correct(vectors, rows, [sets.get(row, 0) for row in rows])
        vectors[:, -1] = SLOTS if allocation.exclusive else 1
        return _Holding(
            allocation.partition,
            np.array(rows, dtype=np.int64),
            vectors,
            self._limit_s(allocation),
            _tenant(allocation, per_node),
            allocation.array,
            sets,
        )

    def _of_lost_partition(self, allocation: OpenAllocation) -> _Holding:
        """An allocation of a partition that is no longer configured. It uses no node."""
        rows, vectors = np.empty(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64)
        tenant = _tenant(allocation, [])
        return _Holding(allocation.partition, rows, vectors, self._limit_s(allocation), tenant, allocation.array)

    def _limit_s(self, allocation: OpenAllocation) -> float:
        return self._default if allocation.time_limit_s is None else allocation.time_limit_s

    def _count(self, holding: _Holding, sign: int) -> None:
        tenant = holding.tenant
        amount = {kind: sign * value for kind, value in tenant.amount.items()}
        add_amounts(self.by_queue.setdefault(tenant.queue, {}), amount)
        if tenant.application != NO_GROUP:
            add_amounts(self.by_application.setdefault(tenant.application, {}), amount)
        if holding.array is not None:
            self.by_array[holding.array] += sign
            if not self.by_array[holding.array]:
                del self.by_array[holding.array]

    def held(self, partition: str) -> Held:
        """The used part of a partition's nodes; the same object as long as the same allocations are open."""
        if partition not in self._held:
            self._held[partition] = self._held_of(partition)
        return self._held[partition]

    def _held_of(self, partition: str) -> Held:
        width = len(self._sets[partition].types) + 1
        own = [(self._begun[id_], holding) for id_, holding in self._open.items() if holding.partition == partition]
        ends_at = [begun + holding.limit_s for begun, holding in own]
        return Held(
            np.concatenate([np.empty(0, dtype=np.int64), *(holding.rows for _, holding in own)]),
            np.concatenate([np.empty((0, width), dtype=np.int64), *(holding.vectors for _, holding in own)]),
            np.repeat(np.array(ends_at, dtype=np.float64), [len(holding.rows) for _, holding in own]),
            _all_sets(holding.devices for _, holding in own),
        )

    def opened(self, partition: str) -> list[Opened]:
        """The open allocations of a partition, in the order of the rows of :meth:`held`."""
        return [
            Opened(id_, self._begun[id_], own.limit_s, own.tenant, own.array, len(own.rows), own.devices)
            for id_, own in self._open.items()
            if own.partition == partition
        ]

    def tenants(self) -> list[Tenant]:
        """The running jobs, for quotas."""
        return [holding.tenant for holding in self._open.values()]


def _with_models(per_node: Sequence[Resources], nodes: Sequence[str], held: Iterable[HeldDevice]) -> list[Resources]:
    """The amounts on each of the nodes, with the models of the devices there."""
    models = models_by_node(held)
    return [used_on(amounts, models.get(node)) for amounts, node in zip(per_node, nodes, strict=True)]


def _sets(own: NodeSet, rows: Iterable[int], held: Iterable[HeldDevice]) -> dict[int, int]:
    """The sets of these devices, by row. Devices that their node no longer lists are left out."""
    ids: dict[str, list[str]] = {}
    for device in held:
        ids.setdefault(device.node, []).append(device.id)
    listed = [(row, own.devices[row], ids.get(own.nodes[row].name, ())) for row in rows]
    return {row: devices.set_of(of_node) for row, devices, of_node in listed if devices is not None}


def _all_sets(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    sets: dict[int, int] = {}
    for part in parts:
        for row, held in part.items():
            sets[row] = sets.get(row, 0) | held
    return sets


def _tenant(allocation: OpenAllocation, per_node: Iterable[Resources]) -> Tenant:
    total: Resources = {}
    for amounts in per_node:
        add_amounts(total, amounts)
    return Tenant(
        queue=allocation.queue,
        amount=total,
        user=allocation.user,
        groups=allocation.groups,
        application=allocation.application,
    )

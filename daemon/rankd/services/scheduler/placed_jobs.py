"""What is recorded about the jobs that a cycle placed: ranks, resources, and the charge of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.fairshare.decay import billing_rate
from rankd.core.model.device import with_models
from rankd.core.model.quantity import Resources
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import Placement
from rankd.core.placement.request import Shape
from rankd.mirror.leaf_orders import LeafOrders
from rankd.mirror.pending_table import PendingTable
from rankd.mirror.unranked import Unranked
from rankd.store.record.allocation import NewAllocation


class JobCost(NamedTuple):
    """``billing``: charge by resource type; ``usage_factors`` by QoS id; ``nodes`` by partition."""

    billing: Mapping[str, float]
    usage_factors: Mapping[int, float]
    nodes: Mapping[str, NodeSet]

    def rate(self, shape: Shape, qos: int, placement: Placement) -> float:
        """Billing units per second of a placed job.

        An exclusive job is charged for whole nodes, and each job for the models of devices that it gets.
        """
        usage_factor = self.usage_factors.get(qos, 1.0)
        if not shape.exclusive and not placement.devices:
            return billing_rate(shape.resources, len(placement.nodes), self.billing, usage_factor)
        amounts = [self._amounts(shape, name, placement.devices.get(name)) for name in placement.nodes]
        return sum(billing_rate(of_node, 1, self.billing, usage_factor) for of_node in amounts)

    def whole(self, shape: Shape, placement: Placement) -> dict[str, Resources]:
        """The amounts that an exclusive job gets on each of its nodes; empty for other jobs."""
        names = placement.nodes if shape.exclusive else ()
        return {name: self._amounts(shape, name, placement.devices.get(name)) for name in names}

    def _amounts(self, shape: Shape, name: str, held: Sequence[str] | None) -> Resources:
        """What the job gets on one node."""
        own = self.nodes[shape.partition]
        row = own.rows[name]
        node, devices = own.nodes[row], own.devices[row]
        amounts = node.capacity if shape.exclusive else shape.resources
        if devices is None:
            return amounts
        return with_models(amounts, [devices.models[devices.places[id_]] for id_ in held or ()])


class PlacedJobs:
    """The memory as the cycle saw it: pending jobs, the order, and the jobs after an overdue generation.

    ``known``: the last events of jobs and of nodes that it includes.
    """

    def __init__(
        self, pending: PendingTable, order: LeafOrders, unranked: Unranked, cost: JobCost, known: tuple[int, int]
    ) -> None:
        self._known = known
        self._pending = pending
        self._order = order
        self._unranked = unranked
        self._cost = cost

    def allocations(self, placed: Sequence[Placement]) -> list[NewAllocation]:
        """The allocations of these placements, in their order."""
        rows = {placement.job: self._row(placement.job) for placement in placed}
        ranks = self._ranks(rows)
        return [self._allocation(one, rows[one.job], ranks[one.job]) for one in placed]

    def _allocation(self, placement: Placement, row: int, rank: int) -> NewAllocation:
        columns = self._pending.columns
        shape = self._pending.known_kinds.table[int(columns.kinds[row])].shape
        array = self._pending.arrays.get(placement.job)
        return NewAllocation(
            job=placement.job,
            revision=int(columns.revisions[row]) if array is None else array.revision,
            of_array=array is not None,
            nodes=placement.nodes,
            resources=shape.resources,
            charge_rate=self._cost.rate(shape, int(columns.qos[row]), placement),
            generation=self._order.generation,
            rank=rank,
            devices=placement.devices,
            whole=self._cost.whole(shape, placement),
            known=self._known,
        )

    def _row(self, job: int) -> int:
        return int(self._pending.lookup(np.array([job]))[0])

    def _ranks(self, rows: Mapping[int, int]) -> Mapping[int, int]:
        """The ranks of jobs, given with their rows. Unranked jobs come after all ranked ones."""
        unranked, order = self._unranked.rows, self._order
        behind = dict(zip(unranked.tolist(), range(1, len(unranked) + 1), strict=True))
        queues = self._pending.columns.queues
        ranks = order.ranks({job: int(queues[row]) for job, row in rows.items() if row not in behind})
        n_ranked = sum(len(order.leaf(queue).ids) for queue in order.queues()) if behind else 0
        return ranks | {job: n_ranked + behind[row] for job, row in rows.items() if row in behind}

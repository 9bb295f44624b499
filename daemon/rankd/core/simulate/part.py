"""One partition while a simulation runs: what its nodes hold, what its queues use, and its cycles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rankd.core.fairshare.decay import billing_rate
from rankd.core.forecast.holding import Given, given
from rankd.core.model.quantity import VCORE, Resources, add_amounts
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import CycleOutcome, PartitionProblem, Placement, Tenant, WaitingJobs
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.queue_view import QueueView, queue_views
from rankd.core.simulate.kinds import SimulatedKinds
from rankd.core.simulate.population import Population
from rankd.core.simulate.running import Running
from rankd.core.simulate.site import MILLICORES, Site


class Part:
    """:meth:`end`, :meth:`decide` and :meth:`start` change it. ``number``: its place among the site's partitions.

    ``running``: its jobs that run. ``reserved_s``: when the next reserved job may start. ``used``: the amounts of each
    queue.
    """

    def __init__(self, site: Site, number: int, ids: Mapping[tuple[str, str], int], work: Population) -> None:
        self._site = site
        self._own = site.partitions[number]
        self._work = work
        self.number = number
        self.nodes = NodeSet(self._own.nodes)
        self.views = queue_views(self._own.partition, ids, self.nodes.totals, site.application_sorts)
        self.running = Running(self.nodes)
        self.used: dict[int, Resources] = {}
        self.reserved_s = math.inf
        self.has_limits = any(view.limits or view.maxapplications for view in self.views)
        self._paths = _paths(self.views)
        self._leaves = {view.id for view in self.views} - {view.parent for view in self.views}
        self._memory = CycleMemory()
        self._tenants: dict[int, Tenant] = {}
        self._amounts: dict[int, Resources] = {}
        self._is_only = len(site.partitions) == 1

    @property
    def name(self) -> str:
        """The name of the partition."""
        return self._own.partition.name

    @property
    def next_s(self) -> float:
        """When something happens by itself: a job ends, or a reserved job may start."""
        return min(self.running.next_end_s, self.reserved_s)

    @property
    def n_nodes(self) -> float:
        """The nodes, as the ranking counts them: a pool is nodes with one core each."""
        return float(self._own.processors if self._own.is_pool else len(self._own.nodes))

    @property
    def n_cores(self) -> float:
        """The cores of all nodes."""
        return self.nodes.totals.get(VCORE, 0) / MILLICORES

    def end(self, now: float) -> IntArray:
        """End the jobs that end by now; returns their places, int64 (n,)."""
        ended = self.running.end(now)
        for place in ended.tolist():
            self._charge(place, self._amounts.pop(place), -1)
            self._tenants.pop(place, None)
        return ended

    def may_start(self, pending: IntArray, kinds: SimulatedKinds) -> bool:
        """Whether any node has room for any of these pending jobs. Otherwise a cycle would start nothing."""
        if not self._is_only:
            pending = pending[self._work.columns.partitions[pending] == self.number]
        if not len(pending) or not self.nodes.nodes:
            return False
        return kinds.table.any_within(kinds.of_jobs[pending], self.running.most_free)

    def problem(self, now: float, waiting: Mapping[int, WaitingJobs], kinds: SimulatedKinds) -> PartitionProblem:
        """What a cycle would decide on now. ``waiting``: the jobs of all leaves of the site."""
        scheduling = self._site.scheduling
        return PartitionProblem(
            now=now,
            queues=self.views,
            waiting=waiting if self._is_only else {leaf: own for leaf, own in waiting.items() if leaf in self._paths},
            kinds=kinds.table,
            used=self.used,
            nodes=self.nodes,
            holds=self.running.held,
            tenants=list(self._tenants.values()),
            node_sort=self._own.partition.nodesort,
            backfill=scheduling.backfill,
            backfill_order=scheduling.backfill_order,
            reserve_depth=scheduling.reserve_depth,
            array_reserve=scheduling.array_reserve,
            billing=self._site.priority.fairshare.billing,
            explain=False,
        )

    def decide(self, now: float, waiting: Mapping[int, WaitingJobs], kinds: SimulatedKinds) -> CycleOutcome:
        """One cycle. Jobs start when :meth:`start` is called."""
        outcome = run_cycle(self.problem(now, waiting, kinds), self._own.node_sort, self._memory)
        self.reserved_s = min(
            (made.starts_at for made in outcome.reservations if made.starts_at > now), default=math.inf
        )
        return outcome

    def start(self, placements: Sequence[Placement], now: float, groups: SimulatedKinds) -> list[int]:
        """These jobs start; returns their places."""
        places = [made.job - 1 for made in placements]
        parts = [self._given(made) for made in placements]
        self.running.start(places, parts, self._work, now)
        for place, own in zip(places, parts, strict=True):
            self._amounts[place] = own.amount
            self._charge(place, own.amount, 1)
            if self.has_limits:
                self._tenants[place] = self._tenant(place, own.amount, groups)
        return places

    def _given(self, made: Placement) -> Given:
        """What a job gets. Whole nodes and devices have their own price: a job is charged for those that it got."""
        number = int(self._work.columns.shapes[made.job - 1])
        shape = self._work.shapes[number]
        if not shape.exclusive and not made.devices:
            vectors = self.nodes.demand(shape).vector[np.newaxis].repeat(len(made.nodes), axis=0)
            return Given([self.nodes.rows[name] for name in made.nodes], vectors, self._work.totals[number], {})
        own = given(self.nodes, shape, made)
        billing = self._site.priority.fairshare.billing
        self._work.rates[made.job - 1] = billing_rate(own.amount, 1, billing, self._work.usage_factor)
        return own

    def _charge(self, place: int, amount: Resources, sign: int) -> None:
        """Add what a job uses to all queues on its path, or take it away."""
        signed = amount if sign > 0 else {kind: -value for kind, value in amount.items()}
        for queue in self._paths[int(self._work.columns.queues[place])]:
            add_amounts(self.used.setdefault(queue, {}), signed)

    def _tenant(self, place: int, amount: Resources, groups: SimulatedKinds) -> Tenant:
        return Tenant(
            queue=int(self._work.columns.queues[place]),
            amount=amount,
            user=self._work.jobs[place].user,
            groups=groups.groups_of(place),
        )

    @property
    def leaves_used(self) -> Mapping[int, Resources]:
        """The amounts of the leaves."""
        return {queue: used for queue, used in self.used.items() if queue in self._leaves}


def _paths(views: Sequence[QueueView]) -> Mapping[int, list[int]]:
    """For each queue, itself and the queues above it."""
    paths: dict[int, list[int]] = {}
    for view in views:  # parents first
        paths[view.id] = [view.id, *(() if view.parent is None else paths[view.parent])]
    return paths

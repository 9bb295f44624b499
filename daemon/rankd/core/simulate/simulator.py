"""A trace lived through on a virtual clock, event by event, by the functions that the daemon runs.

At each instant with an event, first all jobs end that end then, then all jobs are submitted that are submitted then.
After that there is one pass of the ranking (:func:`.rank`) and one scheduling cycle (:func:`.run_cycle`), unless no
node has room for any pending job. Nothing else decides. Pure: the same input gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.model.quantity import VCORE, Resources
from rankd.core.model.queue import walk_queues
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import PartitionProblem, Placement, Reservation, Tenant, no_applications
from rankd.core.ranking.columns import FloatArray, IntArray
from rankd.core.ranking.name import Names, association_names, queue_names
from rankd.core.ranking.queue_view import QueueView, queue_views
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.core.simulate.kinds import SimulatedKinds
from rankd.core.simulate.order import LiveOrder, Order, StaticOrder
from rankd.core.simulate.population import Population, populate
from rankd.core.simulate.predictor import Predictor, Runtime
from rankd.core.simulate.running import Running, UsageBook
from rankd.core.simulate.site import MILLICORES, Site
from rankd.core.simulate.trace import WorkJob


class Decision(msgspec.Struct, frozen=True):
    """What a cycle decided. Jobs are numbered from 1 in the order of submission."""

    now: float
    placements: tuple[Placement, ...]
    reservations: tuple[Reservation, ...]


class Simulation:
    """:meth:`decisions` lives through the trace. ``starts_s`` float64 (n_jobs,): the start of each job, NaN before.

    ``runtime``: what cycles plan with in place of limits (:class:`.Predictor`).
    """

    def __init__(self, site: Site, jobs: Sequence[WorkJob], runtime: Runtime = "requested") -> None:
        self._site = site
        self._ids = {
            (site.partition.name, queue.path.lower()): place
            for place, queue in enumerate(walk_queues(site.partition.root))
        }
        self.work: Population = populate(site, jobs, self._ids)
        self._predictor = Predictor(self.work, runtime)
        self._nodes = NodeSet(site.nodes)
        self._views = queue_views(site.partition, self._ids, self._nodes.totals, site.application_sorts)
        self._paths = _paths(self._views)
        self._has_limits = any(view.limits or view.maxapplications for view in self._views)
        types = {*self._nodes.types, *(kind for view in self._views for kind in view.maximum)}
        self._kinds = SimulatedKinds(self.work, types, site.groups, by_user=self._has_limits)
        self._memory = CycleMemory()
        self._running = Running(self._nodes)
        begin_s = jobs[0].submit_s if jobs else 0.0
        self._book = UsageBook(self.work, site.priority.fairshare.half_life_s, begin_s)
        self._used: dict[int, Resources] = {}
        self._tenants: dict[int, Tenant] = {}
        self._whole = self.work.totals
        self._cores = np.array([total[VCORE] for total in self._whole], dtype=np.int64)[self.work.columns.shapes]
        self._names = Names(
            associations=association_names(self.work.tree, np.arange(self.work.tree.n_users, dtype=np.int64)),
            qos=[one.name for one in site.qos],
            queues=queue_names([self._views]),
            partitions=[site.partition.name],
        )
        self._arrived = 0
        self._reserved_s = math.inf
        self.starts_s: FloatArray = np.full(len(jobs), math.nan)
        is_static = site.priority.policy != "multifactor"
        self._order: Order = StaticOrder(self.work, self._rank) if is_static else LiveOrder(self.work, self._rank)

    @property
    def n_arrived(self) -> int:
        """The number of jobs that were submitted so far."""
        return self._arrived

    def problem(self, now: float) -> PartitionProblem:
        """What a cycle would decide on now, such as a forecast begins from."""
        return self._problem(now)

    @property
    def running(self) -> Running:
        """The jobs that run."""
        return self._running

    def decisions(self, until: float = math.inf) -> Iterator[Decision]:
        """Go from event to event, up to ``until``, and return what each cycle decides."""
        while (now := self._next_s()) < math.inf and now <= until:
            self._end(now)
            self._submit(now)
            self._reserved_s = math.inf
            if self._may_start():
                yield self._decide(now)

    def _next_s(self) -> float:
        submitted = self.work.columns.submitted_at
        arrival_s = float(submitted[self._arrived]) if self._arrived < len(submitted) else math.inf
        return min(arrival_s, self._running.next_end_s, self._reserved_s)

    def _end(self, now: float) -> None:
        ended = self._running.end(now)
        if len(ended):
            self._book.end(ended, now)
            self._predictor.end(ended)
            for place in ended.tolist():
                self._charge(place, -1)
        if not self._predictor.is_exact:
            self._running.outlive(now)

    def _submit(self, now: float) -> None:
        last = int(np.searchsorted(self.work.columns.submitted_at, now, side="right"))
        new = np.arange(self._arrived, last, dtype=np.int64)
        if len(new):
            self._predictor.submit(new)
            self._kinds.add(new, self._order.pending())
            self._order.add(new)
            self._arrived = last

    def _may_start(self) -> bool:
        """Whether any node has room for any pending job. Otherwise a cycle would start nothing, and is left out."""
        pending = self._order.pending()
        if not len(pending):
            return False
        most = self._running.free[:, :-1].max(axis=0).tolist()
        sizes = dict(zip(self._nodes.types, most, strict=True))
        too_large = self._kinds.table.asking_more(sizes, has_empty_node=True)
        return not bool(too_large[self._kinds.of_jobs[pending]].all())

    def _decide(self, now: float) -> Decision:
        outcome = run_cycle(self._problem(now), self._site.node_sort, self._memory)
        self._reserved_s = min(
            (made.starts_at for made in outcome.reservations if made.starts_at > now), default=math.inf
        )
        if outcome.placements:
            self._start([made.job - 1 for made in outcome.placements], outcome.placements, now)
        return Decision(now, outcome.placements, outcome.reservations)

    def _start(self, places: list[int], placements: Sequence[Placement], now: float) -> None:
        self.starts_s[places] = now
        self._running.start(places, [made.nodes for made in placements], self.work, now)
        self._book.start(places, now)
        for place in places:
            self._charge(place, 1)
        self._order.remove(np.array(places, dtype=np.int64))

    def _charge(self, place: int, sign: int) -> None:
        """Add what a job uses to all queues on its path, or take it away."""
        for queue in self._paths[int(self.work.columns.queues[place])]:
            used = self._used.get(queue, {})
            self._used[queue] = {VCORE: used.get(VCORE, 0) + sign * int(self._cores[place])}
        if sign < 0:
            self._tenants.pop(place, None)
        elif self._has_limits:
            self._tenants[place] = self._tenant(place)

    def _tenant(self, place: int) -> Tenant:
        columns = self.work.columns
        return Tenant(
            queue=int(columns.queues[place]),
            amount=self._whole[int(columns.shapes[place])],
            user=self.work.jobs[place].user,
            groups=self._kinds.groups_of(place),
        )

    def _problem(self, now: float) -> PartitionProblem:
        scheduling = self._site.scheduling
        return PartitionProblem(
            now=now,
            queues=self._views,
            waiting=self._order.waiting(now, self._kinds.of_jobs),
            kinds=self._kinds.table,
            used=self._used,
            nodes=self._nodes,
            holds=self._running.held,
            tenants=list(self._tenants.values()),
            node_sort=self._site.partition.nodesort,
            backfill=scheduling.backfill,
            backfill_order=scheduling.backfill_order,
            reserve_depth=scheduling.reserve_depth,
            array_reserve=scheduling.array_reserve,
            billing=self._site.priority.fairshare.billing,
            explain=False,
        )

    def _rank(self, places: IntArray, now: float) -> Ranking:
        usage = self._book.usage()
        ranking = rank(self._state(places), self._site.priority, self._site.factors, now)
        self._book.settle(usage, now)
        return ranking

    def _state(self, places: IntArray) -> RankingState:
        work, qos = self.work, self._site.qos
        ids = np.arange(work.tree.n_users, dtype=np.int64)
        factors = [math.nan if one.factor is None else one.factor for one in qos]
        leaves = {view.id for view in self._views} - {view.parent for view in self._views}
        return RankingState(
            jobs=work.columns.take(places),
            tree=work.tree,
            association_ids=ids,
            usage=self._book.usage(),
            qos_priorities=np.array([one.priority for one in qos], dtype=np.float64),
            qos_factors=np.array(factors, dtype=np.float64),
            queues=[self._views],
            used={queue: used for queue, used in self._used.items() if queue in leaves},
            shapes=self._whole,
            totals=[self._nodes.totals],
            partition_nodes=np.array([float(len(self._site.nodes))]),
            partition_cores=np.array([self._nodes.totals.get(VCORE, 0) / MILLICORES]),
            applications=no_applications(),
            names=self._names,
        )


def _paths(views: Sequence[QueueView]) -> Mapping[int, list[int]]:
    """For each queue, itself and the queues above it."""
    paths: dict[int, list[int]] = {}
    for view in views:  # parents first
        paths[view.id] = [view.id, *(() if view.parent is None else paths[view.parent])]
    return paths

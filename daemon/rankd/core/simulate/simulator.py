"""A trace lived through on a virtual clock, event by event, by the functions that the daemon runs.

At each instant with an event, first all jobs end that end then, then all jobs are submitted that are submitted then.
After that there is one pass of the ranking (:func:`.rank`) and one scheduling cycle (:func:`.run_cycle`) of each
partition, unless no node there has room for any pending job, or what waits is known to wait on
(:mod:`rankd.core.simulate.standstill`). Nothing else decides. Pure: the same input gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.model.queue import walk_queues
from rankd.core.placement.problem import PartitionProblem, Placement, Reservation, no_applications
from rankd.core.ranking.columns import FloatArray, IntArray
from rankd.core.ranking.name import Names, association_names, queue_names
from rankd.core.ranking.pass_memory import PassMemory
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.core.simulate.kinds import SimulatedKinds
from rankd.core.simulate.order import LiveOrder, Order, StaticOrder
from rankd.core.simulate.part import Part
from rankd.core.simulate.population import Population, populate
from rankd.core.simulate.predictor import Predictor, Runtime
from rankd.core.simulate.running import UsageBook
from rankd.core.simulate.site import Site
from rankd.core.simulate.standstill import can_stand_still
from rankd.core.simulate.trace import WorkJob

_NONE = np.empty(0, dtype=np.int64)


class Decision(msgspec.Struct, frozen=True):
    """What a cycle decided. Jobs are numbered from 1 in the order of submission."""

    now: float
    placements: tuple[Placement, ...]
    reservations: tuple[Reservation, ...]


class Simulation:
    """:meth:`decisions` lives through the trace. ``starts_s`` float64 (n_jobs,): the start of each job, NaN before.

    ``parts``: the site's partitions. ``runtime``: what cycles plan with in place of limits (:class:`.Predictor`).
    """

    def __init__(self, site: Site, jobs: Sequence[WorkJob], runtime: Runtime = "requested") -> None:
        self._site = site
        ids = _queue_ids(site)
        self.work: Population = populate(site, jobs, ids)
        self._predictor = Predictor(self.work, runtime)
        self.parts = [Part(site, number, ids, self.work) for number in range(len(site.partitions))]
        types = {kind for part in self.parts for kind in part.nodes.types}
        types |= {kind for part in self.parts for view in part.views for kind in view.maximum}
        by_user = any(part.has_limits for part in self.parts)
        self._kinds = SimulatedKinds(self.work, types, site.groups, by_user=by_user)
        begin_s = jobs[0].submit_s if jobs else 0.0
        self._book = UsageBook(self.work, site.priority.fairshare.half_life_s, begin_s)
        self._names = Names(
            associations=association_names(self.work.tree, np.arange(self.work.tree.n_users, dtype=np.int64)),
            qos=[one.name for one in site.qos],
            queues=queue_names([part.views for part in self.parts]),
            partitions=[part.name for part in self.parts],
        )
        self._arrived = 0
        self.starts_s: FloatArray = np.full(len(jobs), math.nan)
        self._is_static = site.priority.policy != "multifactor"
        self._unchanged = self._unchanged_state()
        self._memory = PassMemory()
        self._order: Order = (
            StaticOrder(self.work, self._rank) if self._is_static else LiveOrder(self.work, self._rank, self._settle)
        )
        self._stands = False
        """Whether no job that waits can start before another one ends: see :mod:`rankd.core.simulate.standstill`."""
        self._can_stand = self._is_static and self._predictor.is_exact and can_stand_still(self.work, self.parts)

    @property
    def n_arrived(self) -> int:
        """The number of jobs that were submitted so far."""
        return self._arrived

    def problems(self, now: float) -> list[PartitionProblem]:
        """What a cycle would decide on now, such as a forecast begins from: one problem for each partition."""
        waiting = self._order.waiting(now, self._kinds.of_jobs)
        return [part.problem(now, waiting, self._kinds) for part in self.parts]

    def decisions(self, until: float = math.inf) -> Iterator[Decision]:
        """Go from event to event, up to ``until``, and return what each cycle decides."""
        while (now := self._next_s()) < math.inf and now <= until:
            free_before = self.parts[0].running.most_free if self._stands else {}
            has_ended, new = self._end(now), self._submit(now)
            if any(part.reserved_s <= now for part in self.parts) or (has_ended and not self._still(free_before)):
                self._stands = False
            if self._stands and not self._may_pass(new):
                continue
            self._stands = self._can_stand
            if able := self._able():
                yield self._decide(able, now)

    def _next_s(self) -> float:
        submitted = self.work.columns.submitted_at
        arrival_s = float(submitted[self._arrived]) if self._arrived < len(submitted) else math.inf
        return min(arrival_s, *(part.next_s for part in self.parts))

    def _end(self, now: float) -> bool:
        """End the jobs that end by now. Returns whether there are any."""
        n_ended = 0
        for part in self.parts:
            ended = part.end(now)
            if len(ended):
                n_ended += len(ended)
                if not self._is_static:
                    self._book.end(ended, now)
                self._predictor.end(ended)
            if not self._predictor.is_exact:
                part.running.outlive(now)
        return n_ended > 0

    def _submit(self, now: float) -> IntArray:
        """Add the jobs that are submitted by now. Returns their places."""
        submitted = self.work.columns.submitted_at
        if self._arrived == len(submitted) or submitted[self._arrived] > now:
            return _NONE
        last = self._arrived + 1
        if last < len(submitted) and submitted[last] <= now:
            last = int(np.searchsorted(submitted, now, side="right"))
        new = np.arange(self._arrived, last, dtype=np.int64)
        self._predictor.submit(new)
        self._kinds.add(new, self._order.pending())
        self._order.add(new)
        self._arrived = last
        return new

    def _still(self, free_before: Mapping[str, int]) -> bool:
        """After ends at a standstill: whether all ended when they were expected to, and no job has room only now."""
        running = self.parts[0].running
        if not self._stands or not running.all_expected or self._kinds.table.any_exclusive:
            return False  # an exclusive job asks for no more than before, and yet has room only once the node is empty
        kinds = self._kinds.of_jobs[self._order.pending()]
        return not self._kinds.table.any_between(kinds, free_before, running.most_free)

    def _may_pass(self, new: IntArray) -> bool:
        """At a standstill: whether any of the new jobs may start, or change what is reserved for others."""
        if not self._order.are_last(new):
            return True
        is_blocked = self._site.scheduling.backfill == "strict" and len(self._order.pending()) > len(new)
        return not is_blocked and self.parts[0].may_start(new, self._kinds)

    def _able(self) -> list[Part]:
        """The partitions in which a cycle might start a job. In the others it would not, and is left out."""
        pending = self._order.pending()
        for part in self.parts:
            part.reserved_s = math.inf
        return [part for part in self.parts if part.may_start(pending, self._kinds)] if len(pending) else []

    def _decide(self, able: Sequence[Part], now: float) -> Decision:
        waiting = self._order.waiting(now, self._kinds.of_jobs)
        outcomes = [part.decide(now, waiting, self._kinds) for part in able]
        for part, outcome in zip(able, outcomes, strict=True):
            if outcome.placements:
                places = part.start(outcome.placements, now, self._kinds)
                self.starts_s[places] = now
                if not self._is_static:
                    self._book.start(places, now)
                self._order.remove(np.array(places, dtype=np.int64))
        return Decision(
            now,
            tuple(made for outcome in outcomes for made in outcome.placements),
            tuple(made for outcome in outcomes for made in outcome.reservations),
        )

    def _rank(self, places: IntArray, now: float) -> Ranking:
        usage = self._book.usage()
        state = msgspec.structs.replace(
            self._unchanged,
            jobs=self.work.columns.take(places),
            usage=usage,
            used={queue: used for part in self.parts for queue, used in part.leaves_used.items()},
        )
        site, memory = self._site, self._memory
        ranking = rank(state, site.priority, site.factors, now, with_queues=False, memory=memory)
        self._book.settle(usage, now)
        return ranking

    def _settle(self, now: float) -> None:
        """What a pass does with usage."""
        self._book.settle(self._book.usage(), now)

    def _unchanged_state(self) -> RankingState:
        """What is the same in each pass; the rest is that of no pass yet."""
        work, qos = self.work, self._site.qos
        factors = [math.nan if one.factor is None else one.factor for one in qos]
        return RankingState(
            jobs=work.columns,
            tree=work.tree,
            association_ids=np.arange(work.tree.n_users, dtype=np.int64),
            usage=self._book.usage(),
            qos_priorities=np.array([one.priority for one in qos], dtype=np.float64),
            qos_factors=np.array(factors, dtype=np.float64),
            queues=[part.views for part in self.parts],
            used={},
            shapes=work.totals,
            totals=[part.nodes.totals for part in self.parts],
            partition_nodes=np.array([part.n_nodes for part in self.parts]),
            partition_cores=np.array([part.n_cores for part in self.parts]),
            applications=no_applications(),
            names=self._names,
        )


def _queue_ids(site: Site) -> dict[tuple[str, str], int]:
    """A number for each queue, by partition and path in lower case."""
    names = [(own.partition.name, queue.path) for own in site.partitions for queue in walk_queues(own.partition.root)]
    return {(partition, path.lower()): place for place, (partition, path) in enumerate(names)}

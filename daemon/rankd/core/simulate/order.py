"""The ranked jobs of each leaf, as cycles need them: ranked again at each instant, or once for the whole trace.

Both use the daemon's ranking. The second is possible if priorities do not change with time and usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.ranking import Ranking
from rankd.core.simulate.population import Population

RankJobs = Callable[[IntArray, float], Ranking]
"""Ranks the jobs at these places, int64 (n,) ascending, at an instant."""


class Order(Protocol):
    """The pending jobs of a simulation. Jobs are places in its population."""

    def add(self, places: IntArray) -> None:
        """Jobs are submitted; int64 (n,)."""

    def remove(self, places: IntArray) -> None:
        """Jobs start; int64 (n,)."""

    def pending(self) -> IntArray:
        """All pending jobs, int64 (n,)."""

    def are_last(self, places: IntArray) -> bool:
        """Whether these pending jobs, int64 (n,), surely come after all other ones, now and later."""

    def waiting(self, now: float, kinds: IntArray) -> Mapping[int, WaitingJobs]:
        """The jobs of each leaf, in order. ``kinds`` int64 (n_jobs of the population,): the kind of each job."""


class LiveOrder:
    """Ranks the pending jobs at each instant. A job that waits alone needs no rank: then usage is settled only."""

    def __init__(self, work: Population, rank: RankJobs, settle: Callable[[float], None]) -> None:
        self._work = work
        self._rank = rank
        self._settle = settle
        self._pending = np.empty(0, dtype=np.int64)
        """Ascending, since jobs are numbered in the order of submission."""

    def add(self, places: IntArray) -> None:
        """See :class:`Order`."""
        self._pending = np.concatenate([self._pending, places])

    def remove(self, places: IntArray) -> None:
        """See :class:`Order`."""
        self._pending = _without(self._pending, places)

    def pending(self) -> IntArray:
        """See :class:`Order`."""
        return self._pending

    def are_last(self, places: IntArray) -> bool:
        """See :class:`Order`. Priorities change with time."""
        return len(places) == len(self._pending)

    def waiting(self, now: float, kinds: IntArray) -> Mapping[int, WaitingJobs]:
        """See :class:`Order`."""
        if len(self._pending) == 1:
            self._settle(now)
            return by_leaf(self._work, self._pending, np.zeros(1, dtype=np.int64), kinds)
        ranking = self._rank(self._pending, now)
        return by_leaf(self._work, ranking.ids - 1, ranking.ranked_priorities, kinds)


class StaticOrder:
    """Ranks all jobs of the trace once. A new job is inserted at its place.

    The jobs of a leaf that has not changed are the same object again, as cycles expect.
    """

    def __init__(self, work: Population, rank: RankJobs) -> None:
        places = np.arange(len(work.jobs), dtype=np.int64)
        ranking = rank(places, float(work.columns.submitted_at.min(initial=0.0)))
        self._work = work
        self._ranks = np.zeros(len(places), dtype=np.int64)
        self._ranks[ranking.ids - 1] = np.arange(len(ranking.ids))
        self._places = ranking.ids - 1
        self._priorities = ranking.ranked_priorities
        self._pending = np.empty(0, dtype=np.int64)
        """The ranks of pending jobs, ascending."""
        self._made: Mapping[int, WaitingJobs] | None = None
        self._kinds: IntArray | None = None

    def add(self, places: IntArray) -> None:
        """See :class:`Order`."""
        ranks, pending = self._ranks[places], self._pending
        if len(ranks) > 1:
            ranks.sort()
        if not len(pending) or pending[-1] < ranks[0]:
            self._pending = np.concatenate([pending, ranks])
        else:
            self._pending = np.insert(pending, np.searchsorted(pending, ranks), ranks)
        self._made = None

    def remove(self, places: IntArray) -> None:
        """See :class:`Order`."""
        self._pending = _without(self._pending, self._ranks[places])
        self._made = None

    def pending(self) -> IntArray:
        """See :class:`Order`."""
        found: IntArray = self._places[self._pending]
        return found

    def are_last(self, places: IntArray) -> bool:
        """See :class:`Order`."""
        return not len(places) or bool(self._pending[-len(places)] == self._ranks[places].min())

    def waiting(self, now: float, kinds: IntArray) -> Mapping[int, WaitingJobs]:  # noqa: ARG002 - time changes nothing
        """See :class:`Order`."""
        if self._made is None or self._kinds is not kinds:
            ranks, self._kinds = self._pending, kinds
            self._made = by_leaf(self._work, self._places[ranks], self._priorities[ranks], kinds)
        return self._made


def _without(ascending: IntArray, gone: IntArray) -> IntArray:
    """The array without these of its values."""
    stays = np.ones(len(ascending), dtype=bool)
    stays[np.searchsorted(ascending, gone)] = False
    return ascending[stays]


def by_leaf(work: Population, places: IntArray, priorities: IntArray, kinds: IntArray) -> dict[int, WaitingJobs]:
    """The jobs at ``places``, int64 (n,) in the order of the ranking, leaf by leaf."""
    queues = work.columns.queues[places]
    if len(queues) and (queues == queues[0]).all():
        return {int(queues[0]): _waiting(work, places, priorities, kinds)}
    found = {}
    for queue in np.unique(queues).tolist():
        own = np.flatnonzero(queues == queue)
        found[queue] = _waiting(work, places[own], priorities[own], kinds)
    return found


def _waiting(work: Population, places: IntArray, priorities: IntArray, kinds: IntArray) -> WaitingJobs:
    return WaitingJobs(
        jobs=places + 1,
        priorities=priorities,
        kinds=kinds[places],
        applications=work.columns.applications[places],
        submitted_at=work.columns.submitted_at[places],
    )

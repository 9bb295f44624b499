"""The order of a full pass, kept so that single jobs can be placed in it without sorting it again.

The keys of queues stay those of the pass: the order of children, and the priorities that jobs of a disabled queue show
above it. A job placed in a disabled queue shows the same priority as in a full pass, with two bounds: at most that of
the job before it, and at least that of the job behind it. These two jobs keep their places.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray, JobColumns
from rankd.core.ranking.job_comparison import JobKeys, QueueHierarchy, earlier, leaf_keys, search, sorted_places
from rankd.core.ranking.order import NO_LEAF, Applications, JobOrder, best_remaining
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN


class BaseOrder:
    """``jobs`` and their ``priorities`` (n_jobs,) in the pass, and the ``order`` that it gave them.

    ``applications`` are those of the pass, with their places by usage. The ``applications`` that methods take are
    newer: they contain those of the pass, of which some may have begun again since. Immutable except for caches.
    """

    def __init__(self, jobs: JobColumns, priorities: IntArray, order: JobOrder, applications: Applications) -> None:
        self.jobs = jobs
        self.priorities = priorities
        self.places = order.places
        usage = applications.usage_places
        self._usage_places = np.empty(0, dtype=np.int64) if usage is None else usage
        self._applications = applications
        n_queues = len(order.pre_order.leaf_places)
        self.pre_order = order.pre_order
        self.hierarchy = QueueHierarchy(order.pre_order, n_queues)
        self._levels = order.levels

    def __len__(self) -> int:
        """How many jobs are ranked."""
        return len(self.places)

    def prepare(self) -> None:
        """Compute the cached values now, so that the first use of each does not have to wait."""
        _ = self.ids, self.ranks, self._shown, self.by_leaf

    @cached_property
    def ids(self) -> IntArray:
        """The ids of the jobs, the first to run first."""
        return self.jobs.ids[self.places]

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """The rank of each job from 1, by its place in the columns; 0 if it has none."""
        ranks = np.zeros(len(self.jobs), dtype=np.int32)
        ranks[self.places] = np.arange(1, len(self.places) + 1, dtype=np.int32)
        return ranks

    @cached_property
    def _shown(self) -> NDArray[np.int32]:
        """The priority that the roots show at each rank, inverted, so that it never falls."""
        shown: NDArray[np.int32] = np.invert(self._levels[0][self.places])
        return shown

    @cached_property
    def by_leaf(self) -> tuple[IntArray, IntArray]:
        """The ranks minus 1, leaf by leaf; and where those of each leaf begin, (n_leaves + 1,)."""
        n_leaves = len(self.hierarchy.above)
        leaves = self.leaves(self.jobs.queues[self.places])
        narrow = leaves.astype(np.uint16 if n_leaves < 2**16 else np.int64)  # few bits are sorted much faster
        bounds = np.concatenate([[0], np.cumsum(np.bincount(leaves, minlength=n_leaves))])
        return np.argsort(narrow, kind="stable"), bounds

    def leaves(self, queues: IntArray) -> IntArray:
        """The places of these queues among the leaves; NO_LEAF for queues that the pass did not know."""
        known = len(self.hierarchy.leaf_places)
        if not known:
            return np.full(len(queues), NO_LEAF)
        return np.where(queues < known, self.hierarchy.leaf_places[np.minimum(queues, known - 1)], NO_LEAF)

    def rank_of(self, ids: IntArray) -> IntArray:
        """The ranks of these jobs; 0 for a job without a rank."""
        if not len(self.jobs):
            return np.zeros(len(ids), dtype=np.int64)
        places = np.minimum(np.searchsorted(self.jobs.ids, ids), len(self.jobs) - 1)
        return np.where(self.jobs.ids[places] == ids, self.ranks[places], 0).astype(np.int64)

    def keys(self, jobs: JobColumns, priorities: IntArray, applications: Applications) -> FloatArray:
        """The keys of these jobs inside their leaves. ``applications`` contain at least those of the pass."""
        disabled = self.hierarchy.disabled[jobs.queues]
        return leaf_keys(jobs, priorities, disabled, applications, self._usage_places)

    def job_keys(self, leaves: IntArray, priorities: IntArray, keys: FloatArray, applications: Applications) -> JobKeys:
        """The keys that decide the places of these jobs, which are in ``leaves``.

        The jobs of a disabled queue must be all that are placed in it, because each depends on the others.
        """
        chains = np.zeros((len(leaves), self.hierarchy.n_depths), dtype=np.int64)
        job_keys, shown = JobKeys(leaves, chains, keys), priorities.copy()
        for depth in range(self.hierarchy.n_depths - 1, -1, -1):
            self._climb(job_keys, shown, depth, applications)
            chains[:, depth] = shown
        return job_keys

    def _climb(self, job_keys: JobKeys, shown: IntArray, depth: int, applications: Applications) -> None:
        """Change ``shown`` from the priorities that the queues at ``depth`` see to those that their parents see."""
        queues = self.hierarchy.above[job_keys.leaves, depth]
        is_frozen = (queues >= 0) & self.hierarchy.disabled[queues]
        free, frozen = np.flatnonzero((queues >= 0) & ~is_frozen), np.flatnonzero(is_frozen)
        shown[free] = self.hierarchy.lifted(shown[free], queues[free])
        for queue in np.unique(queues[frozen]).tolist():
            own = frozen[queues[frozen] == queue]
            own = own[sorted_places(job_keys.take(own), self.hierarchy, depth)]
            shown[own] = self._frozen(job_keys.take(own), shown[own], queue, depth, applications)

    def _frozen(
        self, job_keys: JobKeys, shown: IntArray, queue: int, depth: int, applications: Applications
    ) -> IntArray:
        """The priorities that a disabled queue shows for its jobs in ``job_keys``, which are in their order."""
        sequence = self._subsequence(queue)
        zeros = np.zeros(len(shown), dtype=np.int64)
        gaps = search(zeros, zeros + len(sequence), self._asking(sequence, job_keys, applications))
        lifted = self.hierarchy.lifted(best_remaining(shown, gaps), np.full(len(shown), queue))
        bounds = np.concatenate([[INT32_MAX], self._levels[depth][sequence], [INT32_MIN]])
        return np.clip(lifted, bounds[gaps + 1], bounds[gaps])

    def _subsequence(self, queue: int) -> IntArray:
        """The places of the jobs that the pass had in a queue and below it, in their order."""
        ranks, bounds = self.by_leaf
        first, last = self.hierarchy.spans[queue]
        own = ranks[bounds[first] : bounds[last]]
        return self.places[own if last == first + 1 else np.sort(own)]

    def positions(self, job_keys: JobKeys, applications: Applications) -> IntArray:
        """The ranks of the pass before which these jobs are inserted, from 1 to the number of ranks plus 1."""
        shown = np.invert(job_keys.chains[:, 0].astype(np.int32))
        low = np.searchsorted(self._shown, shown, side="left")
        high = np.searchsorted(self._shown, shown, side="right")
        return search(low, high, self._asking(self.places, job_keys, applications)) + 1

    def _asking(
        self, sequence: IntArray, job_keys: JobKeys, applications: Applications
    ) -> Callable[[IntArray, IntArray], BoolArray]:
        """A function for :func:`search`: whether jobs of the pass, by index in ``sequence``, go before ``job_keys``."""
        as_in_the_pass = msgspec.structs.replace(applications, created_at=self._applications.created_at)

        def goes_first(middle: IntArray, asking: IntArray) -> BoolArray:
            places = sequence[middle]
            queues, chains = self.jobs.queues[places], self._levels[:, places].T.astype(np.int64)
            asked = _Asked(self, places, self.hierarchy.leaf_places[queues], chains, as_in_the_pass)
            return earlier(asked, job_keys.take(asking), self.hierarchy)

        return goes_first


class _Asked(NamedTuple):
    """Jobs of the pass, for comparison."""

    base: BaseOrder
    places: IntArray
    leaves: IntArray
    chains: IntArray
    applications: Applications

    def keys_at(self, places: IntArray) -> FloatArray:
        """See :class:`.ComparableJobs`."""
        own = self.places[places]
        return self.base.keys(self.base.jobs.take(own), self.base.priorities[own], self.applications)

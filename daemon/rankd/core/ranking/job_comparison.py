"""The positions of single jobs among each other and in an existing order.

The nearest common queue above two jobs decides between them. First the priorities count that its two children on their
paths show, then the order of these children. If priority is disabled in that queue, only the order of the children
counts. Inside a leaf the jobs' own keys decide. This is the order of :mod:`rankd.core.ranking.order`, but decided for
single pairs instead of by a full sort. So placing a job costs a binary search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray, JobColumns
from rankd.core.ranking.order import Applications, OrderQueue, PreOrder, lift

_NONE = -1


class QueueHierarchy:
    """The queues above each leaf, as arrays.

    ``above`` int64 (n_leaves, n_depths): the queue id by the leaf's place and depth; -1 below the leaf. ``disabled``
    bool (n_queues,): whether priority is disabled. ``spans`` int64 (n_queues, 2): the first leaf of each queue, and the
    end (exclusive).
    """

    def __init__(self, pre_order: PreOrder, n_queues: int) -> None:
        self.n_depths = pre_order.n_depths
        self.leaf_places = pre_order.leaf_places
        self.above = np.full((len(pre_order.leaves), self.n_depths), _NONE)
        self.disabled = np.zeros(n_queues, dtype=bool)
        self.spans = np.zeros((n_queues, 2), dtype=np.int64)
        self._fenced = np.zeros(n_queues, dtype=bool)
        self._offsets = np.zeros(n_queues, dtype=np.int64)
        for depth, subtrees in pre_order.subtrees.items():
            for subtree in subtrees:
                self.above[subtree.first : subtree.last, depth] = subtree.queue_id
                self.spans[subtree.queue_id] = subtree.first, subtree.last
                self._set_properties(subtree.queue_id, subtree.queue)

    def _set_properties(self, index: int, queue: OrderQueue) -> None:
        self.disabled[index] = not queue.properties.sort_priority
        if not queue.is_root:
            self._fenced[index] = queue.properties.priority_policy == "fence"
            self._offsets[index] = queue.properties.priority_offset

    def lifted(self, shown: IntArray, queues: IntArray) -> IntArray:
        """The priorities that these queues show their parents, if their children show ``shown``."""
        return lift(shown, self._offsets[queues], self._fenced[queues])


class JobKeys(NamedTuple):
    """The values that decide the order of jobs.

    ``leaves`` (n_jobs,): the places of their leaves. ``chains`` int64 (n_jobs, n_depths): the priorities that the
    queues on their paths show for them. ``keys`` (n_jobs, 7): the keys inside the leaf; smaller is earlier.
    """

    leaves: IntArray
    chains: IntArray
    keys: FloatArray

    def take(self, places: IntArray) -> JobKeys:
        """The rows at ``places``."""
        return JobKeys(self.leaves[places], self.chains[places], self.keys[places])

    def keys_at(self, places: IntArray) -> FloatArray:
        """The keys of the jobs at ``places``."""
        return self.keys[places]


class ComparableJobs(Protocol):
    """Like :class:`JobKeys`, but the keys are only computed for the jobs that need them."""

    @property
    def leaves(self) -> IntArray:
        """The places of the leaves, (n_jobs,)."""

    @property
    def chains(self) -> IntArray:
        """The priorities that the queues on the paths show, (n_jobs, n_depths)."""

    def keys_at(self, places: IntArray) -> FloatArray:
        """The keys inside the leaf of the jobs at ``places``."""


def leaf_keys(
    jobs: JobColumns, priorities: IntArray, disabled: BoolArray, applications: Applications, usage: IntArray
) -> FloatArray:
    """The keys inside leaves, (n_jobs, 7): priority (if it counts), the keys of the application, submission, id.

    ``disabled`` (n_jobs,): whether priority is disabled in the job's leaf. ``usage``: the places of applications by
    usage; later applications have place 0. A job without an application counts as one created at its submission, before
    named ones of the same instant.
    """
    named = np.flatnonzero(jobs.applications != NO_GROUP)
    keys = np.zeros((len(jobs), 7))
    keys[:, 0] = np.where(disabled, 0, -priorities)
    keys[:, 2] = keys[:, 5] = jobs.submitted_at
    keys[:, 6] = jobs.ids
    if len(named):
        of = jobs.applications[named]
        keys[named, 1] = np.where(of < len(usage), usage[np.minimum(of, len(usage) - 1)], 0) if len(usage) else 0
        keys[named, 2] = applications.created_at[of]
        keys[named, 3] = 1 + applications.id_places[of]
        keys[named, 4] = np.where(disabled[named], -priorities[named], 0)
    return keys


def earlier(one: ComparableJobs, other: ComparableJobs, hierarchy: QueueHierarchy) -> BoolArray:
    """Whether ``one[i]`` goes before ``other[i]``, bool (n,). False if both are the same job."""
    is_first: BoolArray = one.leaves < other.leaves
    apart = np.flatnonzero(one.leaves != other.leaves)
    if len(apart) < len(is_first):
        same = np.flatnonzero(one.leaves == other.leaves)
        is_first[same] = _first_smaller(one.keys_at(same), other.keys_at(same))
    if len(apart):
        ours, theirs = hierarchy.above[one.leaves[apart]], hierarchy.above[other.leaves[apart]]
        common = (ours != theirs).argmax(axis=1)
        difference = one.chains[apart, common] - other.chains[apart, common]
        difference[(common > 0) & hierarchy.disabled[ours[np.arange(len(apart)), common - 1]]] = 0
        shown = np.flatnonzero(difference)
        is_first[apart[shown]] = difference[shown] > 0
    return is_first


def _first_smaller(one: FloatArray, other: FloatArray) -> BoolArray:
    """For each row: whether the first key that differs is smaller in ``one``."""
    pairs, deciding = np.arange(len(one)), (one != other).argmax(axis=1)
    smaller: BoolArray = one[pairs, deciding] < other[pairs, deciding]
    return smaller


def search(low: IntArray, high: IntArray, goes_first: Callable[[IntArray, IntArray], BoolArray]) -> IntArray:
    """For each of several searches: how many elements at the front of a sequence go before the searched one.

    The result is from ``low`` to ``high``. ``goes_first`` takes indices in the sequence and, for each, the index of the
    search. All searches together need O(log n) calls.
    """
    low, high = low.copy(), high.copy()
    while len(searching := np.flatnonzero(low < high)):
        middle = (low[searching] + high[searching]) // 2
        is_first = goes_first(middle, searching)
        low[searching] = np.where(is_first, middle + 1, low[searching])
        high[searching] = np.where(is_first, high[searching], middle)
    return low


def sorted_places(job_keys: JobKeys, hierarchy: QueueHierarchy, from_depth: int = _NONE) -> IntArray:
    """The places of these jobs in their order. With ``from_depth``, all jobs must be in one queue of that depth.

    Jobs are sorted by their keys inside leaves, then by one stable sort per depth, by the priorities of the children.
    """
    order = np.lexsort((*job_keys.keys.T[::-1], job_keys.leaves))
    for depth in range(hierarchy.n_depths - 2, from_depth - 1, -1):
        leaves = job_keys.leaves[order]
        child = hierarchy.above[leaves, depth + 1]
        parent = hierarchy.above[leaves, depth] if depth >= 0 else np.full(len(leaves), _NONE)
        shown = np.where(
            (child < 0) | ((parent >= 0) & hierarchy.disabled[parent]), 0, -job_keys.chains[order, depth + 1]
        )
        group = np.where(parent < 0, leaves if depth >= 0 else 0, hierarchy.spans[parent, 0])
        order = order[np.lexsort((shown, group))]
    return order

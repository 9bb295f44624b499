"""The order in which the scheduler would try all pending jobs.

At every parent, the child that shows the highest priority goes first. A child shows the priority of its best remaining
job, with the child's offset and fence applied. Equal priorities are decided by the parent's own order of its children.
If ``application.sort.priority`` of a parent (or of a leaf) is disabled, priority does not count between its children.
Source: YuniKorn's priority scheduling design (fences, offsets).

Method: every queue is a sequence of jobs. Each position has a shown priority: that of the best job from there on, as
the parent sees it. It never rises along the sequence. So a parent's sequence is a stable sort of the sequences of its
children, concatenated in the children's order. All jobs are laid out leaf by leaf, in pre-order, so that the jobs of a
queue are always adjacent. Then all queues of one depth are sorted at once, the deepest first. A queue without an offset
or fence needs no sort of its own, because the sort of a queue above gives the same order. So without fences and
offsets, one sort is enough for the whole tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankd.core.model.quantity import Resources
from rankd.core.model.queue import QueueProperties
from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray, JobColumns
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN

Places = NDArray[np.intp]

PACKED_BITS = 64
"""The bits of a number in :func:`stable_order`. If a key and a place do not fit into it, the general sort is used."""

_APART = 2**33
"""Larger than the difference of any two priorities."""

NO_LEAF = -1

_FEW_JOBS = 1024
"""Up to this number of jobs, one sort by all keys takes less time than a layout."""


class OrderQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue for ordering: its properties, and the ids of its children in their order for equal priorities."""

    properties: QueueProperties
    is_root: bool
    children: tuple[int, ...] = ()


class Applications(msgspec.Struct, frozen=True, kw_only=True):
    """The named applications. All fields are by their index; arrays have the shape (n_applications,).

    ``created_at`` float64: UTC seconds. ``id_places`` int64: the place of each among all, sorted by id. Sorting
    policies also need: ``queues`` int64, the leaf of each; ``used``, the amounts of applications that use anything;
    ``states``, of applications that are not just running; ``pending``, amounts that are given without jobs. From these,
    :func:`.application_order.usage_places` computes ``usage_places`` (int64).
    """

    created_at: FloatArray
    id_places: IntArray
    queues: IntArray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    used: Mapping[int, Resources] = {}
    states: Mapping[int, str] = {}
    pending: Mapping[int, Resources] = {}
    usage_places: IntArray | None = None


class Subtree(NamedTuple):
    """A queue and all queues below it.

    Its leaves have the places from ``first`` up to, without, ``last``. ``above``: the properties of the parent.
    """

    queue_id: int
    queue: OrderQueue
    above: QueueProperties
    first: int
    last: int

    @property
    def is_lifted(self) -> bool:
        """Whether its parent sees other priorities than those of its jobs, because of an offset or a fence."""
        own = self.queue.properties
        return not self.queue.is_root and (own.priority_policy == "fence" or own.priority_offset != 0)

    @property
    def is_sorted(self) -> bool:
        """Whether it needs a sort of its own, because the next sort above would give another order."""
        return self.queue.properties.sort_priority and (self.is_lifted or not self.above.sort_priority)


class PreOrder:
    """The queues below some roots. ``leaves``: the ids of the leaves in pre-order. ``subtrees``: by depth.

    ``disabled`` bool (n_leaves,): whether priority is disabled in the leaf. ``leaf_places`` int64 (n_queues,): each
    queue's place among the leaves, or NO_LEAF.
    """

    def __init__(self, queues: Sequence[OrderQueue], roots: Sequence[int]) -> None:
        self.leaves: list[int] = []
        self.subtrees: dict[int, list[Subtree]] = {}
        for root in roots:
            self._visit(queues, root, QueueProperties(), 0)
        self.disabled = np.array([not queues[leaf].properties.sort_priority for leaf in self.leaves], dtype=bool)
        self.leaf_places = np.full(len(queues), NO_LEAF)
        self.leaf_places[self.leaves] = np.arange(len(self.leaves))

        of_all = [one for own in self.subtrees.values() for one in own]
        self.is_plain = not any(one.is_lifted or not one.queue.properties.sort_priority for one in of_all)
        """Whether all queues show the priorities of their jobs, and sort by them."""

    @property
    def n_depths(self) -> int:
        """The number of levels of the deepest tree; at least 1, even without any queue."""
        return max(len(self.subtrees), 1)

    def _visit(self, queues: Sequence[OrderQueue], index: int, above: QueueProperties, depth: int) -> None:
        queue, first = queues[index], len(self.leaves)
        for child in queue.children:
            self._visit(queues, child, queue.properties, depth + 1)
        if not queue.children:
            self.leaves.append(index)
        self.subtrees.setdefault(depth, []).append(Subtree(index, queue, above, first, len(self.leaves)))


class _Layout(NamedTuple):
    """All jobs, with the jobs of each queue adjacent. Changed in place.

    ``bounds`` (n_leaves + 1,): the first position of each leaf's jobs, and the end.
    """

    places: Places
    shown: IntArray
    bounds: IntArray

    def spans(self, subtrees: Sequence[Subtree]) -> tuple[Places, IntArray]:
        """The positions of the jobs of these queues, and for each position the index of its queue in ``subtrees``."""
        starts = self.bounds[[subtree.first for subtree in subtrees]]
        ends = self.bounds[[subtree.last for subtree in subtrees]]
        owners = np.repeat(np.arange(len(subtrees)), ends - starts)
        return np.arange(len(owners)) + (ends - np.cumsum(ends - starts))[owners], owners


class JobOrder(NamedTuple):
    """The order of :func:`sort_jobs`, and the shown priorities that decided it.

    ``levels`` int32 (n_depths, n_jobs), by depth (root 0) and job: the priority that the queue at this depth on the
    job's path shows its parent at the job's position. Values are undefined for jobs that are not in the order, and for
    depths below the job's leaf.
    """

    places: Places
    levels: NDArray[np.int32]
    pre_order: PreOrder


def sort_jobs(
    jobs: JobColumns,
    priorities: IntArray,
    pre_order: PreOrder,
    applications: Applications,
    waiting: BoolArray | None = None,
    *,
    keep_levels: bool = True,
) -> JobOrder:
    """The order of the eligible jobs that are not ``waiting``: places (indices into ``jobs``), the first to run first.

    ``waiting``: bool (n_jobs,). Several roots (partitions) are merged by the priority that they show, then in their own
    order. Without ``keep_levels`` the levels are empty. O(n log n): one sort for the layout, one for the whole, and at
    each depth one for the queues with fences or offsets.
    """
    ranked = jobs.eligible if waiting is None else jobs.eligible & ~waiting
    if pre_order.is_plain and not keep_levels and len(jobs) <= _FEW_JOBS and (jobs.applications == NO_GROUP).all():
        levels = np.empty((pre_order.n_depths, 0), dtype=np.int32)
        return JobOrder(_order_of_few(jobs, priorities, ranked, pre_order), levels, pre_order)
    layout = _lay_out(jobs, priorities, ranked, pre_order, applications)
    levels = np.empty((pre_order.n_depths, len(jobs) if keep_levels else 0), dtype=np.int32)
    for depth in sorted(pre_order.subtrees, reverse=True):
        _settle(pre_order.subtrees[depth], layout)
        if keep_levels:
            levels[depth][layout.places] = layout.shown
    return JobOrder(layout.places[stable_order([-layout.shown])], levels, pre_order)


def _order_of_few(jobs: JobColumns, priorities: IntArray, ranked: BoolArray, pre_order: PreOrder) -> Places:
    """The same order in one sort, if all queues show the priorities of their jobs, and no job has an application."""
    leaves = pre_order.leaf_places[jobs.queues]
    places: Places = (ranked & (leaves != NO_LEAF)).nonzero()[0]
    return places.take(np.lexsort((jobs.submitted_at[places], leaves[places], -priorities[places])))


def _lay_out(
    jobs: JobColumns, priorities: IntArray, ranked: BoolArray, pre_order: PreOrder, applications: Applications
) -> _Layout:
    """The layout, leaf by leaf. Inside a leaf, jobs are in the order for equal priorities.

    In a leaf with disabled priority this is the final order.
    """
    leaves = pre_order.leaf_places[jobs.queues]
    places = np.flatnonzero(ranked & (leaves != NO_LEAF))
    places = places[np.argsort(jobs.submitted_at[places], kind="stable")]
    keys: list[IntArray] = []
    of = jobs.applications[places]
    if (of != NO_GROUP).any():
        keys = [_entry_places(of, jobs.submitted_at[places], applications)]
        # inside an application, priority counts even in a disabled leaf: its jobs are sorted among each other first
        inside = np.flatnonzero((of != NO_GROUP) & pre_order.disabled[leaves[places]])
        best = inside[stable_order([-priorities[places[inside]]])]
        places[inside], keys[0][inside] = places[best], keys[0][best]
    keys.append(leaves[places])
    bounds = np.concatenate([[0], np.cumsum(np.bincount(keys[-1], minlength=len(pre_order.leaves)))])
    places = places[stable_order(keys)]
    return _Layout(places, priorities[places], bounds)


def _entry_places(of: IntArray, submitted_at: FloatArray, applications: Applications) -> IntArray:
    """The place of each job's application among all: by usage (if the policy of its leaf uses it), creation, id.

    A job without an application counts as one that uses nothing and was created at its submission. It is before named
    applications of the same instant. All jobs between the same two named applications share a place. ``submitted_at``
    must ascend.
    """
    usage = np.zeros_like(applications.id_places) if applications.usage_places is None else applications.usage_places
    order = np.lexsort((applications.id_places, applications.created_at, usage))
    n_before = np.count_nonzero(usage < 0)
    created_at = applications.created_at[order[n_before : n_before + np.count_nonzero(usage == 0)]]
    starts = np.searchsorted(submitted_at, created_at, side="right")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(1, 2 * len(order), 2)
    between = 2 * n_before + np.arange(0, 2 * len(starts) + 1, 2)
    places = np.repeat(between, np.diff(starts, prepend=0, append=len(submitted_at)))
    named = np.flatnonzero(of != NO_GROUP)
    places[named] = ranks[of[named]]
    return places


def _settle(subtrees: Sequence[Subtree], layout: _Layout) -> None:
    """Sort the jobs of the queues at one depth, if they need it, and set the priorities that their parents see."""
    if needing := [subtree for subtree in subtrees if subtree.is_sorted]:
        spans, owners = layout.spans(needing)
        order = spans[stable_order([-layout.shown[spans], owners])]
        layout.places[spans], layout.shown[spans] = layout.places[order], layout.shown[order]
    if disabled := [subtree for subtree in subtrees if not subtree.queue.properties.sort_priority]:
        spans, owners = layout.spans(disabled)
        layout.shown[spans] = best_remaining(layout.shown[spans], owners)
    if lifted := [subtree for subtree in subtrees if subtree.is_lifted]:
        spans, owners = layout.spans(lifted)
        layout.shown[spans] = _lifted(layout.shown[spans], [subtree.queue.properties for subtree in lifted], owners)


def best_remaining(shown: IntArray, owners: IntArray) -> IntArray:
    """For each position, the maximum of it and all later positions of the same owner. Owners ascend."""
    apart = owners * _APART
    return np.maximum.accumulate((shown - apart)[::-1])[::-1] + apart


def _lifted(shown: IntArray, properties: Sequence[QueueProperties], owners: IntArray) -> IntArray:
    """The priorities that the parents see: with the offset added, or the constant of a fence."""
    offsets = np.array([own.priority_offset for own in properties])[owners]
    fenced = np.array([own.priority_policy == "fence" for own in properties])[owners]
    return lift(shown, offsets, fenced)


def lift(shown: IntArray, offsets: IntArray, fenced: BoolArray) -> IntArray:
    """The priorities that the parents see, from the ``shown`` ones: with the offset added, or a fence's constant."""
    return np.where(fenced, offsets, np.clip(shown + offsets, INT32_MIN, INT32_MAX))


def stable_order(keys: Sequence[IntArray]) -> Places:
    """The same as ``np.lexsort(keys)``: the last key counts most, and rows with equal keys keep their order.

    Keys and places are packed into 64-bit numbers. Sorting these is many times faster than sorting places by keys. If
    all keys fit, one round is enough. Otherwise there are several, from the least significant key on.
    """
    n_jobs = len(keys[0])
    n_place_bits = n_jobs.bit_length()
    order: Places | None = None
    packed, n_bits = np.arange(n_jobs), n_place_bits
    for key in keys if n_jobs else ():
        least = int(key.min())
        width = (int(key.max()) - least).bit_length()
        if n_place_bits + width > PACKED_BITS:
            return np.lexsort(keys)
        if n_bits + width > PACKED_BITS:
            order = _sorted_places(packed, n_place_bits, order)
            packed, n_bits = np.arange(n_jobs), n_place_bits
        own = (key if order is None else key[order]) - least
        packed |= np.left_shift(own, n_bits, out=own)
        n_bits += width
    return _sorted_places(packed, n_place_bits, order)


def _sorted_places(packed: IntArray, n_place_bits: int, order: Places | None) -> Places:
    """The places in the order of these numbers. ``order``: the result of an earlier round, if there was one."""
    packed.view(np.uint64).sort()
    packed &= 2**n_place_bits - 1
    return packed if order is None else order[packed]

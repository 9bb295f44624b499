"""The order in which all pending jobs would be tried if each were taken in turn.

At every parent the child whose best remaining job shows the highest priority goes first, its offset and
fence applied; ties go by the parent's own order of its children. Under a parent (or in a leaf) whose
``application.sort.priority`` is disabled, priority plays no part between its children. Source: YuniKorn's
priority scheduling design (fences, offsets).

How: every queue is a sequence of jobs with, for each position, the priority that the best of the remaining
jobs shows to the parent. That never rises along the sequence, so a parent's sequence is a stable sort of its
children's, put end to end in the children's order. All jobs are laid out leaf by leaf, in pre-order, so that a
queue's are always together; then the queues of one depth are settled at once, the deepest first. A queue that
shows what its jobs show is left to the sort of the next queue above that needs one, which puts them in the same
order: without fences and offsets one sort does for the whole tree.
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
"""What :func:`stable_order` packs into; a key that does not fit beside a place makes it take the general path."""

_APART = 2**33
"""More than two priorities can differ by."""

NO_LEAF = -1


class OrderQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue for ordering: its properties and its children's indices in the parent's order (ties)."""

    properties: QueueProperties
    is_root: bool
    children: tuple[int, ...] = ()


class Applications(msgspec.Struct, frozen=True, kw_only=True):
    """The named applications, by index: when each was created (float64) and its place among all by id (int64).

    What sorting policies need besides: ``queues``, each one's leaf (int64); ``used``, what those use that use
    anything; ``states`` of those that do not simply run. ``pending`` states work outright that no job stands for.
    ``usage_places`` (int64) is made of them, by :func:`.application_order.usage_places`.
    """

    created_at: FloatArray
    id_places: IntArray
    queues: IntArray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    used: Mapping[int, Resources] = {}
    states: Mapping[int, str] = {}
    pending: Mapping[int, Resources] = {}
    usage_places: IntArray | None = None


class Subtree(NamedTuple):
    """A queue and all below it: the leaves from ``first`` to before ``last``. ``above``: the parent's properties."""

    queue_id: int
    queue: OrderQueue
    above: QueueProperties
    first: int
    last: int

    @property
    def is_lifted(self) -> bool:
        """Whether its parent sees other priorities than its own jobs'."""
        own = self.queue.properties
        return not self.queue.is_root and (own.priority_policy == "fence" or own.priority_offset != 0)

    @property
    def is_sorted(self) -> bool:
        """Whether it needs a sort of its own: the next one above does not put its jobs in the same order."""
        return self.queue.properties.sort_priority and (self.is_lifted or not self.above.sort_priority)


class PreOrder:
    """The queues below some roots: the ``leaves``' indices in pre-order, which are ``disabled``; subtrees by depth.

    ``leaf_places`` int64 (n_queues,): each queue's place among the leaves.
    """

    def __init__(self, queues: Sequence[OrderQueue], roots: Sequence[int]) -> None:
        self.leaves: list[int] = []
        self.subtrees: dict[int, list[Subtree]] = {}
        for root in roots:
            self._visit(queues, root, QueueProperties(), 0)
        self.disabled = np.array([not queues[leaf].properties.sort_priority for leaf in self.leaves], dtype=bool)
        self.leaf_places = np.full(len(queues), NO_LEAF)
        self.leaf_places[self.leaves] = np.arange(len(self.leaves))

    @property
    def n_depths(self) -> int:
        """How deep the deepest root is; 1 at least, also without any queue."""
        return max(len(self.subtrees), 1)

    def _visit(self, queues: Sequence[OrderQueue], index: int, above: QueueProperties, depth: int) -> None:
        queue, first = queues[index], len(self.leaves)
        for child in queue.children:
            self._visit(queues, child, queue.properties, depth + 1)
        if not queue.children:
            self.leaves.append(index)
        self.subtrees.setdefault(depth, []).append(Subtree(index, queue, above, first, len(self.leaves)))


class _Layout(NamedTuple):
    """All jobs, each queue's together; changed in place. ``bounds`` (n_leaves + 1,): where each leaf's begin."""

    places: Places
    shown: IntArray
    bounds: IntArray

    def spans(self, subtrees: Sequence[Subtree]) -> tuple[Places, IntArray]:
        """The positions of these queues' jobs, and beside each the index of its queue among these."""
        starts = self.bounds[[subtree.first for subtree in subtrees]]
        ends = self.bounds[[subtree.last for subtree in subtrees]]
        owners = np.repeat(np.arange(len(subtrees)), ends - starts)
        return np.arange(len(owners)) + (ends - np.cumsum(ends - starts))[owners], owners


class JobOrder(NamedTuple):
    """The order of :func:`sort_jobs`, and what decided it.

    ``levels`` int32 (n_depths, n_jobs): by depth from the root's 0 and job, what the queue at that depth on the
    job's path shows its parent in the job's place; nothing of meaning for jobs that are not in the order, and
    below a job's leaf.
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
    """The order of the eligible jobs that are not ``waiting``: places (indices into ``jobs``), first to run first.

    Several roots (partitions) are merged by the priority that they show, then in their own order. Without
    ``keep_levels`` the levels are left empty. O(n log n): once for the layout, once for the whole, and per depth once
    for what is below fences and offsets.
    """
    ranked = jobs.eligible if waiting is None else jobs.eligible & ~waiting
    layout = _lay_out(jobs, priorities, ranked, pre_order, applications)
    levels = np.empty((pre_order.n_depths, len(jobs) if keep_levels else 0), dtype=np.int32)
    for depth in sorted(pre_order.subtrees, reverse=True):
        _settle(pre_order.subtrees[depth], layout)
        if keep_levels:
            levels[depth][layout.places] = layout.shown
    return JobOrder(layout.places[stable_order([-layout.shown])], levels, pre_order)


def _lay_out(
    jobs: JobColumns, priorities: IntArray, ranked: BoolArray, pre_order: PreOrder, applications: Applications
) -> _Layout:
    """Leaf by leaf, inside each in the order that holds between equal priorities (in a disabled leaf: at all)."""
    leaves = pre_order.leaf_places[jobs.queues]
    places = np.flatnonzero(ranked & (leaves != NO_LEAF))
    places = places[np.argsort(jobs.submitted_at[places], kind="stable")]
    keys: list[IntArray] = []
    of = jobs.applications[places]
    if (of != NO_GROUP).any():
        keys = [_entry_places(of, jobs.submitted_at[places], applications)]
        # inside an application priority counts even there: such jobs change places with each other beforehand
        inside = np.flatnonzero((of != NO_GROUP) & pre_order.disabled[leaves[places]])
        best = inside[stable_order([-priorities[places[inside]]])]
        places[inside], keys[0][inside] = places[best], keys[0][best]
    keys.append(leaves[places])
    bounds = np.concatenate([[0], np.cumsum(np.bincount(keys[-1], minlength=len(pre_order.leaves)))])
    places = places[stable_order(keys)]
    return _Layout(places, priorities[places], bounds)


def _entry_places(of: IntArray, submitted_at: FloatArray, applications: Applications) -> IntArray:
    """The place of each job's application among all: by usage (where its leaf goes by it), creation, id.

    A job that is its own application uses nothing, was created with its submission, and stands before named ones
    of that instant; several between the same two share a place. ``submitted_at`` ascends.
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
    """Bring queues of one depth into their order, where that is to be done here, and show what their parents see."""
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
    """The maximum of each position and all behind it of the same owner; owners ascend."""
    apart = owners * _APART
    return np.maximum.accumulate((shown - apart)[::-1])[::-1] + apart


def _lifted(shown: IntArray, properties: Sequence[QueueProperties], owners: IntArray) -> IntArray:
    """What the parents see: the offset added, or a fence's constant."""
    offsets = np.array([own.priority_offset for own in properties])[owners]
    fenced = np.array([own.priority_policy == "fence" for own in properties])[owners]
    return lift(shown, offsets, fenced)


def lift(shown: IntArray, offsets: IntArray, fenced: BoolArray) -> IntArray:
    """What the parent sees of a queue that shows so much: the offset added, or a fence's constant."""
    return np.where(fenced, offsets, np.clip(shown + offsets, INT32_MIN, INT32_MAX))


def stable_order(keys: Sequence[IntArray]) -> Places:
    """As ``np.lexsort(keys)``: the last key counts most, and what is equal in all of them stays as it stands.

    Keys and places are packed into 64-bit numbers, whose sort is many times faster than that of places by keys: in
    one round if all fit, else in several, from the least significant key on.
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
    """The places in the order of these numbers; those of an earlier round's order, if there was one."""
    packed.view(np.uint64).sort()
    packed &= 2**n_place_bits - 1
    return packed if order is None else order[packed]

"""The queues of a partition at the beginning of a cycle. They are kept between cycles, so only changes cost time.

Leaves are compared by the identity of their jobs' columns (see the contract of :class:`.PartitionProblem`), and queues
by their used amounts. The result is the same as that of a full rebuild. A :class:`.Traversal` forks the tree and does
not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, compress
from operator import is_not

import numpy as np

from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.grown_array import with_room
from rankd.core.placement.job_stream import streams_of
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.leaf_content import LeafContent
from rankd.core.placement.leaf_kind import LeafKinds
from rankd.core.placement.live_queue import LiveQueue
from rankd.core.placement.problem import PartitionProblem, WaitingJobs
from rankd.core.placement.queue_index import QueueIndex
from rankd.core.placement.queue_tree import QueueTree, path_of
from rankd.core.ranking.columns import BoolArray, IntArray

_NOTHING: Resources = {}
_FEW = 64
"""The most leaves with other kinds before the array of all kinds is built again."""


class PartitionState:
    """The queues of a partition before a cycle. :meth:`update` updates them to a problem.

    ``contents``: by place, of the leaves with jobs. ``n_leaves`` and ``n_jobs``: the number of leaves and of jobs of
    each kind, int64 (n_kinds,). ``changed``: the places of queues whose used amounts or jobs have changed with the last
    :meth:`update`; None means that all queues are new.
    """

    def __init__(self) -> None:
        self.kinds = KindTable()
        self.index = QueueIndex(())
        self._tree = QueueTree([])
        self._stale: set[int] = set()
        """The places of queues with changes since their keys were computed."""
        self.totals: list[tuple[str, int]] = []
        self.contents: dict[int, LeafContent] = {}
        self._numbers: IntArray = np.zeros((0, 2), dtype=np.int64, order="F")
        """The columns of ``n_leaves`` and ``n_jobs``, with room for more kinds."""
        self._booked: dict[int, LeafContent] = {}
        """By place, the contents that are in the numbers and in the pending amounts."""
        self._unbooked: set[int] = set()
        """The leaves whose contents have changed since."""
        self._is_pending_given = False
        self.changed: set[int] | None = None
        self._total: Resources = {}
        self._jobs: dict[int, WaitingJobs] = {}
        self._known: dict[int, LeafContent] = {}
        self._n_children: list[int] = []
        self._named: set[int] = set()
        """Leaves with named applications, whose keys change with their usage."""
        self._heavier: set[int] = set()
        """Queues whose used or pending amounts have changed."""
        self._n_types = 0
        self._given: tuple[list[int], list[WaitingJobs]] = ([], [])
        """The leaves of the last problem, and their jobs."""
        self._using: set[int] = set()
        """The queues with used amounts in the last problem."""
        self._leaf_kinds: LeafKinds | None = None

    def successor(self) -> PartitionState:
        """A state of the same queues without jobs.

        It keeps the contents of leaves, in case their jobs stay the same.
        """
        other = PartitionState()
        other.index, other.kinds, other._n_types, other._known = (
            self.index,
            self.kinds,
            self._n_types,
            self._known.copy(),
        )
        return other

    def update(self, problem: PartitionProblem, total: Resources) -> None:
        """Update to a problem of the partition. ``total``: the sum of its nodes."""
        if problem.kinds is not self.kinds or problem.kinds.n_types != self._n_types:
            self.kinds, self._n_types, self._known = problem.kinds, problem.kinds.n_types, {}
            self._tree = QueueTree([])
        is_same = problem.queues is self.index.views and problem.pending is None and total == self._total
        is_new, self._is_pending_given = not self._tree.lives or not is_same, problem.pending is not None
        if is_new:
            self._plant(problem, total)
        self._count_new_kinds()
        touched = self._update_used(problem.used) | self._update_jobs(problem)
        self.changed = None if is_new else touched
        if is_new:
            touched = set(range(len(self._tree.lives)))
            self._heavier |= touched
        self._stale |= touched
        if self.only_leaf is None:
            self._refresh()
        elif problem.explain:
            self._book()

    @property
    def n_leaves(self) -> IntArray:
        """The number of leaves with jobs of each kind, int64 (n_kinds,)."""
        self._book()
        return self._numbers[: len(self.kinds), 0]

    @property
    def n_jobs(self) -> IntArray:
        """The number of jobs of each kind, int64 (n_kinds,)."""
        self._book()
        return self._numbers[: len(self.kinds), 1]

    @property
    def tree(self) -> QueueTree:
        """The queues with their keys. To be called after an :meth:`update`."""
        if self._stale:
            self._refresh()
        return self._tree

    @property
    def only_leaf(self) -> LiveQueue | None:
        """The leaf with all jobs, if one leaf has them all, in one order. Then no key is needed; None otherwise."""
        if len(self.contents) != 1:
            return None
        leaf = self._tree.lives[next(iter(self.contents))]
        return leaf if len(leaf.streams) == 1 else None

    def live(self, place: int) -> LiveQueue:
        """The queue at this place. What it uses and its jobs are up to date; what is pending and its key may not be."""
        return self._tree.lives[place]

    def _plant(self, problem: PartitionProblem, total: Resources) -> None:
        """Build all queues again, without jobs."""
        if problem.queues is not self.index.views:
            self.index = QueueIndex(problem.queues)
        self._total, self.contents, self._jobs = dict(total), {}, {}
        self.totals = [(kind, total[kind]) for kind in sorted(total) if total[kind] > 0]
        self._numbers = np.zeros((len(self.kinds), 2), dtype=np.int64, order="F")
        self._booked, self._unbooked = {}, set()
        lives: list[LiveQueue] = []
        self._n_children, self._named, self._heavier = [0] * len(problem.queues), set(), set()
        self._given, self._using, self._leaf_kinds = ([], []), set(), None
        for place, (view, above) in enumerate(zip(problem.queues, self.index.above.tolist(), strict=True)):
            lives.append(LiveQueue(view, None if above < 0 else lives[above], place))
            if above >= 0:
                self._n_children[above] += 1
            if problem.pending is not None:
                lives[-1].pending = dict(problem.pending.get(view.id, _NOTHING))
        self._tree, self._stale = QueueTree(lives), set()

    def _count_new_kinds(self) -> None:
        self._numbers = with_room(self._numbers, len(self.kinds), "F")

    def _update_used(self, used: Mapping[int, Resources]) -> set[int]:
        touched: set[int] = set()
        lives, places = self._tree.lives, self.index.places
        for queue in used.keys() | self._using:
            if (place := places.get(queue)) is not None:
                live, own = lives[place], used.get(queue, _NOTHING)
                if own != live.used:
                    live.used = dict(own)
                    touched.add(place)
        self._using = set(used)
        self._heavier |= touched
        return touched

    def _update_jobs(self, problem: PartitionProblem) -> set[int]:
        """Update the leaves whose jobs have changed. Returns their places.

        Jobs are compared by identity. If the leaves are the same as before, this is one operation for all of them.
        """
        queues, jobs = list(problem.waiting), list(problem.waiting.values())
        known, before = self._given
        goes_on = queues[: len(known)] == known
        others: Iterable[int] = queues
        if goes_on:
            others = chain(compress(queues, map(is_not, jobs, before)), queues[len(known) :])
        self._given = (queues, jobs)
        index, touched = self.index, set()
        for place in {*(index.places[queue] for queue in others), *self._named}:
            own = problem.waiting.get(index.views[place].id)
            content = self.contents.get(place)
            if own is not None and len(own.jobs):
                if self._jobs.get(place) is not own or place in self._named:
                    self._fill(self._tree.lives[place], own, problem)
                    touched.add(place)
            elif content is not None:
                self._empty(self._tree.lives[place])
                touched.add(place)
        if not goes_on:
            for place in self.contents.keys() - {index.places[queue] for queue in queues}:
                self._empty(self._tree.lives[place])
                touched.add(place)
        return touched

    def _fill(self, leaf: LiveQueue, jobs: WaitingJobs, problem: PartitionProblem) -> None:
        before = self.contents.get(leaf.place)
        content = self._content(leaf.view.id, jobs)
        leaf.streams = list(streams_of(jobs, leaf.view, self._total, problem.applications))
        leaf.stream_heap, leaf.lifted_heap = [], []
        for place in range(len(leaf.streams)):
            self._tree.refresh_stream(leaf, place)
        if any(stream.application is not None for stream in leaf.streams):
            self._named.add(leaf.place)
        else:
            self._named.discard(leaf.place)
        self.contents[leaf.place], self._jobs[leaf.place] = content, jobs
        if content is not before:
            self._look_again_at(leaf.place)
            self._unbooked.add(leaf.place)

    def _content(self, queue: int, jobs: WaitingJobs) -> LeafContent:
        known = self._known.get(queue)
        if known is None or not known.is_counted or not known.is_of(jobs.kinds, self.kinds, jobs.tasks):
            known = self._known[queue] = LeafContent(jobs.kinds, self.kinds, jobs.tasks)
        return known

    def _empty(self, leaf: LiveQueue) -> None:
        del self.contents[leaf.place], self._jobs[leaf.place]
        self._look_again_at(leaf.place)
        self._known.pop(leaf.view.id, None)
        leaf.streams = []
        self._unbooked.add(leaf.place)

    def _book(self) -> None:
        """Count the jobs of the leaves that have changed, and add them to the pending amounts."""
        changed, self._unbooked = self._unbooked, set()
        for place in changed:
            before, content = self._booked.pop(place, None), self.contents.get(place)
            if content is not None:
                self._booked[place] = content
            if content is not before:
                self._count(before, -1)
                self._count(content, 1)
                if not self._is_pending_given:
                    self._charge(self._tree.lives[place], before, content)

    def _count(self, content: LeafContent | None, sign: int) -> None:
        if content is not None:
            self._numbers[content.kinds, 0] += sign
            self._numbers[content.kinds, 1] += sign * content.counts

    def _charge(self, leaf: LiveQueue, before: LeafContent | None, content: LeafContent | None) -> None:
        """Add the change of the leaf's pending amounts to all queues on its path."""
        more = {} if before is None else {kind: -value for kind, value in before.asked.items()}
        add_amounts(more, {} if content is None else content.asked)
        for live in path_of(leaf):
            add_amounts(live.pending, more)
            self._heavier.add(live.place)

    def _refresh(self) -> None:
        """Compute new keys for the queues that have changed, and the queues above them."""
        self._book()
        tree, totals, touched, self._stale = self._tree, self.totals, self._stale, set()
        whole, above = set(touched), self.index.above.tolist()
        for place in touched:
            at = above[place]
            while at >= 0 and at not in whole:
                whole.add(at)
                at = above[at]
        for place in sorted(whole, reverse=True):
            live = tree.lives[place]
            if place in self._heavier:
                live.weigh(totals)
            if self._n_children[place]:
                tree.tidy(live, self._n_children[place])
            tree.refresh(live)
        self._heavier.clear()

    def has_any(self, which: BoolArray) -> bool:
        """Whether there are jobs of any of these kinds; bool (n_kinds,)."""
        return bool(self.n_jobs[which].any())

    def leaves_with(self, which: BoolArray) -> set[int]:
        """The places of leaves that have jobs of any of these kinds, or can't be left out."""
        if self._leaf_kinds is None or len(self._leaf_kinds.others) > _FEW:
            self._leaf_kinds = LeafKinds.of(self.contents)
        found = self._leaf_kinds.leaves_with(which, self.contents)
        return found | (self.index.stay & self.contents.keys())

    def _look_again_at(self, place: int) -> None:
        if self._leaf_kinds is not None:
            self._leaf_kinds.others.add(place)

    def leaves_by_kind(self, which: BoolArray) -> dict[int, list[int]]:
        """For each of these kinds, bool (n_kinds,): the ids of the leaves with jobs of it."""
        leaves: dict[int, list[int]] = {}
        for place, content in self.contents.items():
            for kind in content.kinds[which[content.kinds]].tolist():
                leaves.setdefault(kind, []).append(self.index.views[place].id)
        return leaves

"""Which job is tried next. The queue tree is walked, and usage is updated while jobs are placed.

A walk begins with the tree of a :class:`.PartitionState` and copies only the queues that it changes. Every parent keeps
its children in a heap by their sort key. Every leaf whose policy uses usage keeps its applications in such a heap.
After each job, only the queues on its path get new keys: O(log n) per step and level, for any number of jobs.

A queue's priority is that of its jobs that were not tried yet. Jobs of blocked kinds count until their turn; then they
are all passed at once. (Between two tries that change nothing, the order of the other jobs stays the same.) After
several leaves with only blocked jobs, all such leaves are left out at once, if that changes nothing for other jobs.
"""

from __future__ import annotations

import numpy as np

from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.array_limit import ArrayLimits
from rankd.core.placement.live_queue import LiveQueue
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.queue_tree import path_of
from rankd.core.placement.shortest_first import ShortestFirst, Turn
from rankd.core.ranking.columns import BoolArray

_FEW_SKIPS = 2
"""After this number of leaves with only blocked jobs, all leaves are searched for other jobs at once."""
_PART_KEPT = 8
"""Leaves are left out only if at most one in this number of leaves has other jobs."""
_AGAIN = 4
"""If more leaves have other jobs, the number of skipped leaves before the next search grows by this factor."""


class Traversal:
    """:meth:`next` returns one job after another.

    The caller reports with :meth:`started` that the last one was placed.
    """

    def __init__(self, partition: PartitionState, limits: ArrayLimits | None = None) -> None:
        self.limited: list[Turn] = []
        """The arrays that were passed because no more of their tasks may start."""
        self._partition = partition
        self._limits = limits or ArrayLimits()
        self._job = 0
        """The job that :meth:`next` returned last."""
        self._tree = partition.tree.fork()
        self._current: tuple[LiveQueue, int] | None = None
        self._always: BoolArray = np.zeros(len(partition.kinds), dtype=bool)
        self._skips = 0
        self._enough_skips = _FEW_SKIPS

    @property
    def always(self) -> BoolArray:
        """The kinds that are passed everywhere; bool (n_kinds,)."""
        return self._always

    def next(self) -> Turn | None:
        """The next job whose kind is not blocked; None if there is no other."""
        self._go_on()
        tree = self._tree
        while tree.lives:
            live: LiveQueue | None = tree.mine(0)
            while live is not None and not live.streams:
                child = tree.first_child(live)
                live = None if child is None else tree.mine(child.place)
            place = None if live is None else tree.first_stream(live)
            if live is None or place is None:
                return None
            stream = live.streams[place]
            kind = int(stream.waiting.kinds[stream.at])
            blocked = self._always if live.blocked is None else live.blocked
            self._current = (live, place)
            if not blocked[kind]:
                turn = Turn(live.view.id, int(stream.waiting.jobs[stream.at]), kind)
                if not self._limits.is_reached(turn.job):
                    stream.step()
                    self._job = turn.job
                    return turn
                self.limited.append(turn)
                stream.pass_front()
            else:
                stream.skip(blocked)
            self._go_on()
            self._leave_out(live)
        return None

    def has_any(self, kinds: BoolArray) -> bool:
        """Whether there are jobs of any of these kinds, bool (n_kinds,)."""
        return self._partition.has_any(kinds)

    def _leave_out(self, leaf: LiveQueue) -> None:
        """Count the leaf if it has only blocked jobs. After several of them, leave out all such leaves."""
        if leaf.best is not None:
            return
        self._skips += 1
        if self._skips == self._enough_skips:
            left = self._partition.leaves_with(~self._always)
            if len(left) * _PART_KEPT <= len(self._partition.contents):
                self._tree.keep_only(left)
            else:
                self._enough_skips *= _AGAIN

    def _go_on(self) -> None:
        """Compute new keys on the path of the last job, up to the first queue that does not change."""
        if self._current is None:
            return
        leaf, place = self._current
        self._current = None
        self._tree.refresh_stream(leaf, place)
        for live in path_of(leaf):
            if not self._tree.refresh(live):
                return

    def started(self, kind: int, given: Resources) -> None:
        """The last job was placed. Move its amounts from pending to used, in all queues on its path.

        ``given``: the amounts that it got. It may have got less than it asked for (fewer nodes), or more (whole nodes).

        Raises:
            LookupError: :meth:`next` has returned no job before.
        """
        if self._current is None:
            raise LookupError("started() was called, but next() has returned no job")
        self._limits.start(self._job)
        leaf, place = self._current
        application = leaf.streams[place].application
        if application is not None:
            application.usage.add(given)
        asked = self._partition.kinds.amounts[kind].items()
        self._tree.refresh_stream(leaf, place)
        live: LiveQueue | None = leaf
        while live is not None:
            add_amounts(live.used, given)
            pending = live.pending
            for resource, value in asked:
                pending[resource] = pending.get(resource, 0) - value
            if live.above is not None:
                live.weigh(self._partition.totals)
            self._tree.refresh(live)
            live = live.above
        self._current = None

    def rest_by_limit(self) -> ShortestFirst:
        """The jobs that were not tried, those with the shortest time limit first. It continues this traversal."""
        self._go_on()
        leaves = [self._tree.lives[place] for place in self._partition.contents]
        rest = [
            (leaf.view.id, stream, self._always if leaf.blocked is None else leaf.blocked)
            for leaf in leaves
            for stream in leaf.streams
        ]
        return ShortestFirst(rest, self._partition.kinds, self._always, self._limits, self.limited)

    def pass_rest(self) -> None:
        """Pass the other tasks, if the last job was a task of an array."""
        if self._current is not None:
            leaf, place = self._current
            leaf.streams[place].pass_rest()

    def block(self, queue: int, kind: int) -> None:
        """Pass the other jobs of this kind in this leaf, because the reason for the first one still applies."""
        leaf = self._tree.mine(self._partition.index.places[queue])
        if leaf.blocked is None:
            leaf.blocked = self._always.copy()
        leaf.blocked[kind] = True

    def pass_all(self, kinds: BoolArray) -> None:
        """Pass the other jobs of these kinds, bool (n_kinds,), in all leaves."""
        self._always = self._always | kinds
        self._skips, self._enough_skips = 0, _FEW_SKIPS
        for live in self._tree.changed():
            if live.blocked is not None:
                live.blocked |= kinds
        if not self._partition.has_any(~self._always):
            self._tree.keep_only(())

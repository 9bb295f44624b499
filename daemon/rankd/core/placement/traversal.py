"""Which job is tried next: the queue tree, walked with usage as it becomes while jobs are placed.

A walk begins with the tree of a :class:`.PartitionState` and copies only the queues that it changes. Every parent keeps
its children in a heap by their sort key, and every leaf that goes by usage keeps its applications so. After each job,
only the queues on its path get new keys: O(log n) per step and level, for any number of jobs.

A queue's priority is that of its jobs not looked at yet; jobs of blocked kinds count until it is their turn, when
they are all passed at once. (Between two looks that change nothing, nothing else can have its turn differently.)
Leaves that have nothing else are left out once there are several of them, where that makes no difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.live_queue import LiveQueue
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.queue_tree import path_of
from rankd.core.ranking.columns import BoolArray

_FEW_SKIPS = 2
"""After so many leaves with nothing but blocked jobs, the others are looked for all at once."""
_PART_KEPT = 8
"""More than this part of them is not worth the trouble."""
_AGAIN = 4
"""Then they are looked for again after so many times as many."""


class Turn(NamedTuple):
    """A job whose turn it is: its leaf queue, its id, its kind."""

    queue: int
    job: int
    kind: int


class Traversal:
    """:meth:`next` gives one job after another; :meth:`started` says that the last one was placed."""

    def __init__(self, partition: PartitionState) -> None:
        self._partition = partition
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
        """The next job that is no blocked one; None when all were looked at."""
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
                stream.at += 1
                return turn
            stream.skip(blocked)
            self._go_on()
            self._leave_out(live)
        return None

    def _leave_out(self, leaf: LiveQueue) -> None:
        """Count leaves that had nothing but blocked jobs; several: leave out all that have nothing else."""
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
        """New keys on the path of the job that was looked at last, as far up as anything changes."""
        if self._current is None:
            return
        leaf, place = self._current
        self._current = None
        self._tree.refresh_stream(leaf, place)
        for live in path_of(leaf):
            if not self._tree.refresh(live):
                return

    def started(self, kind: int, given: Resources) -> None:
        """The job just handed out was placed: no more pending, used instead, on the whole path.

        It may have been given less than it asked for (fewer nodes), or more (nodes whole).
        """
        if self._current is None:
            raise LookupError("no job was handed out")
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

    def block(self, queue: int, kind: int) -> None:
        """Pass the rest of this kind in this leaf: what blocked one of them has not become less."""
        leaf = self._tree.mine(self._partition.index.places[queue])
        if leaf.blocked is None:
            leaf.blocked = self._always.copy()
        leaf.blocked[kind] = True

    def pass_all(self, kinds: BoolArray) -> None:
        """Pass the rest of these kinds everywhere; bool (n_kinds,)."""
        self._always = self._always | kinds
        self._skips, self._enough_skips = 0, _FEW_SKIPS
        for live in self._tree.changed():
            if live.blocked is not None:
                live.blocked |= kinds
        if not self._partition.has_any(~self._always):
            self._tree.keep_only(())

"""Which job is tried next: the queue tree, walked with usage as it becomes while jobs are placed.

Every parent keeps its children in a heap by their sort key, every leaf that goes by usage its applications; after
a job was looked at, only the queues on its path get new keys. A key that is no longer the newest is skipped when it
comes up. O(log n) per step and level, whatever the number of jobs; nothing is sorted again.

A queue's priority is that of its jobs not looked at yet; jobs of blocked kinds count until it is their turn, when
they are all passed at once. (Between two looks that change nothing, nothing else can have its turn differently.)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.problem import WaitingJobs
from rankd.core.placement.stream import Stream, StreamKey, streams_of
from rankd.core.ranking.columns import BoolArray, IntArray
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_forest import QueueView
from rankd.core.ranking.queue_key import lifted_priority, sort_key

Key = tuple[float, float, float, str]


class Turn(NamedTuple):
    """A job whose turn it is: its leaf queue, its id, its kind."""

    queue: int
    job: int
    kind: int


class _Live:
    """One queue's state during a cycle."""

    __slots__ = (
        "above",
        "best",
        "blocked",
        "by_priority",
        "counts",
        "denominators",
        "heap",
        "key",
        "lifted",
        "lifted_heap",
        "pending",
        "place",
        "share",
        "stream_heap",
        "streams",
        "used",
        "view",
        "weight",
    )  # fmt: skip

    def __init__(self, view: QueueView, above: _Live | None, used: Resources, pending: Resources, place: int) -> None:
        self.view = view
        self.above = above
        self.place = place
        self.by_priority = view.properties.sort_priority
        self.used = used
        self.pending = pending
        self.denominators = list((view.effective_max | view.guaranteed).items())
        self.share = 0.0
        self.weight = 0.0
        self.best: int | None = None
        self.lifted: int | None = None
        self.key: Key | None = None
        self.heap: list[tuple[Key, int]] = []
        self.lifted_heap: list[tuple[int, int]] = []
        self.streams: list[Stream] = []
        self.stream_heap: list[tuple[StreamKey, int]] = []
        self.blocked: BoolArray | None = None
        self.counts: IntArray | None = None


class Traversal:
    """:meth:`next` gives one job after another; :meth:`started` says that the last one was placed.

    Without ``pending`` it is the sum of what the jobs ask for.
    """

    def __init__(
        self,
        queues: Sequence[QueueView],
        waiting: Mapping[int, WaitingJobs],
        kinds: KindTable,
        used: Mapping[int, Resources],
        total: Resources,
        *,
        pending: Mapping[int, Resources] | None = None,
        applications: Applications,
    ) -> None:
        self._total = total
        self._totals = [(kind, total[kind]) for kind in sorted(total) if total[kind] > 0]
        self._kinds = kinds
        self._live: dict[int, _Live] = {}
        self._order: list[_Live] = []
        self._current: tuple[_Live, int] | None = None
        self._always: BoolArray = np.zeros(len(kinds), dtype=bool)
        for place, view in enumerate(queues):
            above = None if view.parent is None else self._live[view.parent]
            own = dict(pending.get(view.id, {})) if pending is not None else {}
            live = _Live(view, above, dict(used.get(view.id, {})), own, place)
            self._live[view.id] = live
            self._order.append(live)
        for queue, jobs in waiting.items():
            self._fill(self._live[queue], jobs, applications, is_summed=pending is None)
        for live in reversed(self._order):
            for place in range(len(live.streams)):
                self._refresh_stream(live, place)
            self._weigh(live)
            self._refresh(live)

    def _fill(self, leaf: _Live, jobs: WaitingJobs, applications: Applications, *, is_summed: bool) -> None:
        leaf.streams = list(streams_of(jobs, leaf.view, self._total, applications))
        leaf.counts = np.bincount(jobs.kinds, minlength=len(self._kinds))
        if not is_summed or not leaf.streams:
            return
        total = self._kinds.summed(leaf.counts)
        for live in _path(leaf):
            _add(live.pending, total)

    def _weigh(self, live: _Live) -> None:
        """As :mod:`rankd.core.ranking.queue_key` have it, to the last bit, on types looked up beforehand."""
        share, used, pending = 0.0, live.used, live.pending
        for kind, denominator in live.denominators:
            amount = used.get(kind, 0)
            if amount > 0:
                share = max(share, amount / denominator if denominator > 0 else 1.0)
        live.share = share
        live.weight = sum([pending.get(kind, 0) / total for kind, total in self._totals])

    def _refresh_stream(self, leaf: _Live, place: int) -> None:
        """A stream's key after it went on, pushed onto the leaf's heap; one that is alone needs none."""
        stream = leaf.streams[place]
        if len(leaf.streams) == 1:
            return
        stream.key = None if stream.is_done() else stream.sort_key()
        if stream.key is not None:
            heapq.heappush(leaf.stream_heap, (stream.key, place))
            if not leaf.by_priority:
                heapq.heappush(leaf.lifted_heap, (-stream.best(), place))

    def _refresh(self, live: _Live) -> bool:
        """The queue's best remaining job and its key, pushed onto the parent's heap; whether anything changed."""
        live.best = self._best(live)
        above = live.above
        if above is None:
            return False
        if live.best is None:
            changed = live.key is not None
            live.key = live.lifted = None
            return changed
        lifted = lifted_priority(live.best, live.view.properties)
        key = sort_key(lifted, live.share, live.weight, live.view.path, by_priority=above.by_priority)
        if key == live.key and lifted == live.lifted:
            return False
        if not above.by_priority and lifted != live.lifted:
            heapq.heappush(above.lifted_heap, (-(lifted or 0), live.place))
        live.key, live.lifted = key, lifted
        heapq.heappush(above.heap, (key, live.place))
        return True

    def _best(self, live: _Live) -> int | None:
        """The highest priority that the queue's remaining jobs show inside it."""
        if not live.streams:
            child = self._first_child(live)
            if child is None or live.by_priority:
                return None if child is None else child.lifted
            return self._most_lifted(live)
        place = self._first_stream(live)
        if place is None:
            return None
        if live.by_priority or len(live.streams) == 1:
            return live.streams[place].best()
        return self._best_stream(live)

    def _first_child(self, live: _Live) -> _Live | None:
        """The child at the top of the heap, outdated entries dropped."""
        while live.heap:
            key, place = live.heap[0]
            child = self._order[place]
            if child.key == key:
                return child
            heapq.heappop(live.heap)
        return None

    def _most_lifted(self, live: _Live) -> int | None:
        """The highest priority of any child, where the children are not in its order."""
        heap = live.lifted_heap
        while heap:
            negated, place = heap[0]
            if self._order[place].lifted == -negated:
                return -negated
            heapq.heappop(heap)
        return None

    def _first_stream(self, leaf: _Live) -> int | None:
        if len(leaf.streams) == 1:
            return None if leaf.streams[0].is_done() else 0
        heap = leaf.stream_heap
        while heap:
            key, place = heap[0]
            if leaf.streams[place].key == key:
                return place
            heapq.heappop(heap)
        return None

    def _best_stream(self, leaf: _Live) -> int | None:
        heap = leaf.lifted_heap
        while heap:
            negated, place = heap[0]
            stream = leaf.streams[place]
            if not stream.is_done() and stream.best() == -negated:
                return -negated
            heapq.heappop(heap)
        return None

    def next(self) -> Turn | None:
        """The next job that is no blocked one; None when all were looked at."""
        self._go_on()
        while True:
            live: _Live | None = self._order[0] if self._order else None
            while live is not None and not live.streams:
                live = self._first_child(live)
            place = None if live is None else self._first_stream(live)
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

    def _go_on(self) -> None:
        """New keys on the path of the job that was looked at last, as far up as anything changes."""
        if self._current is None:
            return
        leaf, place = self._current
        self._current = None
        self._refresh_stream(leaf, place)
        for live in _path(leaf):
            if not self._refresh(live):
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
        asked = self._kinds.amounts[kind].items()
        self._refresh_stream(leaf, place)
        live: _Live | None = leaf
        while live is not None:
            _add(live.used, given)
            pending = live.pending
            for resource, value in asked:
                pending[resource] = pending.get(resource, 0) - value
            if live.above is not None:
                self._weigh(live)
            self._refresh(live)
            live = live.above
        self._current = None

    def block(self, queue: int, kind: int) -> None:
        """Pass the rest of this kind in this leaf: what blocked one of them has not become less."""
        leaf = self._live[queue]
        if leaf.blocked is None:
            leaf.blocked = self._always.copy()
        leaf.blocked[kind] = True

    def pass_all(self, kinds: BoolArray) -> None:
        """Pass the rest of these kinds everywhere; bool (n_kinds,)."""
        self._always = self._always | kinds
        for live in self._order:
            if live.blocked is not None:
                live.blocked |= kinds

    def passed(self) -> Iterator[tuple[int, BoolArray]]:
        """By leaf, the kinds that were passed everywhere and that it has jobs of; bool (n_kinds,)."""
        if self._always.any():
            for live in self._order:
                if live.counts is not None:
                    yield live.view.id, self._always & (live.counts > 0)


def _path(live: _Live) -> Iterator[_Live]:
    """From the leaf up to the root."""
    at: _Live | None = live
    while at is not None:
        yield at
        at = at.above


def _add(total: Resources, amount: Mapping[str, int]) -> None:
    for kind, value in amount.items():
        total[kind] = total.get(kind, 0) + value

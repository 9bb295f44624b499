"""The queue tree with its heaps: every parent has its children in the order of their keys, the best first.

After a change of a queue, only the queues on its path get new keys. Outdated keys stay in the heaps and are skipped
when they come to the top. A :meth:`QueueTree.fork` shares each queue until it changes that queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from rankd.core.placement.job_stream import JobStream
from rankd.core.placement.live_queue import LiveQueue
from rankd.core.ranking.queue_key import lifted_priority, sort_key

_OUTDATED = 64


class QueueTree:
    """Queues by place, the root first, parents before children."""

    def __init__(self, lives: list[LiveQueue], own: set[int] | None = None) -> None:
        self.lives = lives
        self._own = own

    def fork(self) -> QueueTree:
        """A tree that can be changed without changing this one."""
        return QueueTree(self.lives.copy(), set())

    def mine(self, place: int) -> LiveQueue:
        """The queue at this place, which the caller may change. A fork first copies it and all queues above it."""
        if self._own is None or place in self._own:
            return self.lives[place]
        live = self.lives[place]
        above = None if live.above is None else self.mine(live.above.place)
        live = self.lives[place] = live.copy(above)
        self._own.add(place)
        return live

    def changed(self) -> Iterator[LiveQueue]:
        """The queues that this fork has copied."""
        return (self.lives[place] for place in self._own or ())

    def keep_only(self, leaves: Iterable[int]) -> None:
        """Leave all leaves out of a fork, except these. ``leaves``: places."""
        kept: set[int] = set()
        for leaf in leaves:
            live: LiveQueue | None = self.mine(leaf)
            while live is not None and live.place not in kept:
                kept.add(live.place)
                live = live.above
        self.mine(0).key = None
        places = sorted({0} | kept, reverse=True)
        for place in places:
            live = self.lives[place]
            live.heap, live.lifted, live.key = [], None, None
            if not live.streams:
                live.lifted_heap = []
        for place in places:
            self.refresh(self.lives[place])

    def refresh_stream(self, leaf: LiveQueue, place: int) -> None:
        """Compute the key of a stream that has moved on, and push it onto the leaf's heap.

        A single stream needs none.
        """
        stream = leaf.streams[place]
        if len(leaf.streams) == 1:
            return
        stream.key = None if stream.is_done() else stream.sort_key()
        if stream.key is not None:
            heapq.heappush(leaf.stream_heap, (stream.key, place))
            if not leaf.by_priority:
                heapq.heappush(leaf.lifted_heap, (-stream.best(), place))

    def refresh(self, live: LiveQueue) -> bool:
        """Update the queue's best priority and key, and push the key onto the parent's heap.

        Returns whether the parent must be updated too.
        """
        best, key, above = self._best(live), live.key, live.above
        if key is not None and best == live.best and key[1] == live.share and key[2] == -live.weight:
            return False
        live.best = best
        if above is None:
            return False
        if best is None:
            live.key = live.lifted = None
            return key is not None
        lifted = lifted_priority(best, live.view.properties)
        key = sort_key(lifted, live.share, live.weight, live.view.path, by_priority=above.by_priority)
        if key == live.key and lifted == live.lifted:
            return False
        if not above.by_priority and lifted != live.lifted:
            heapq.heappush(above.lifted_heap, (-(lifted or 0), live.place))
        live.key, live.lifted = key, lifted
        heapq.heappush(above.heap, (key, live.place))
        return True

    def tidy(self, live: LiveQueue, n_children: int) -> None:
        """Drop the outdated entries of a parent's heaps, if they have more of them than newest ones."""
        for heap, name in ((live.heap, "heap"), (live.lifted_heap, "lifted_heap")):
            if len(heap) > 2 * n_children + _OUTDATED:
                setattr(live, name, sorted({entry for entry in heap if self._is_newest(entry, name)}))

    def _is_newest(self, entry: tuple[object, int], name: str) -> bool:
        child = self.lives[entry[1]]
        if child.key is None:
            return False
        return entry[0] == (child.key if name == "heap" else -(child.lifted or 0))

    def _best(self, live: LiveQueue) -> int | None:
        """The highest priority that the queue's remaining jobs show inside it."""
        if not live.streams:
            child = self.first_child(live)
            if child is None or live.by_priority:
                return None if child is None else child.lifted
            return self._most_lifted(live)
        place = self.first_stream(live)
        if place is None:
            return None
        if live.by_priority or len(live.streams) == 1:
            return live.streams[place].best()
        return _best_stream(live)

    def first_child(self, live: LiveQueue) -> LiveQueue | None:
        """The first child in the heap; None if there is none. Outdated entries at the top are dropped."""
        while live.heap:
            key, place = live.heap[0]
            child = self.lives[place]
            if child.key == key:
                return child
            heapq.heappop(live.heap)
        return None

    def _most_lifted(self, live: LiveQueue) -> int | None:
        """The highest priority of any child, if the children are not sorted by priority."""
        heap = live.lifted_heap
        while heap:
            negated, place = heap[0]
            if self.lives[place].lifted == -negated:
                return -negated
            heapq.heappop(heap)
        return None

    def first_stream(self, leaf: LiveQueue) -> int | None:
        """The index of the next stream of the leaf; None if all are done."""
        if len(leaf.streams) == 1:
            return None if leaf.streams[0].is_done() else 0
        heap = leaf.stream_heap
        while heap:
            key, place = heap[0]
            if leaf.streams[place].key == key:
                return place
            heapq.heappop(heap)
        return None


def _best_stream(leaf: LiveQueue) -> int | None:
    heap = leaf.lifted_heap
    while heap:
        negated, place = heap[0]
        stream: JobStream = leaf.streams[place]
        if not stream.is_done() and stream.best() == -negated:
            return -negated
        heapq.heappop(heap)
    return None


def path_of(live: LiveQueue) -> Iterator[LiveQueue]:
    """The queues from this one up to the root."""
    at: LiveQueue | None = live
    while at is not None:
        yield at
        at = at.above

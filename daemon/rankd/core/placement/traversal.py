"""Which job is tried next: the queue tree, walked with usage as it becomes while jobs are placed.

Every parent keeps its children in a heap by their sort key; after a job was looked at, only the queues on its
path get new keys. A key that is no longer the queue's newest is skipped when it comes up. O(log n) per step
and level; nothing is sorted again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec

from rankd.core.model.quantity import Resources
from rankd.core.ranking.queue_forest import QueueView
from rankd.core.ranking.queue_key import fair_share, lifted_priority, pending_weight, sort_key

Key = tuple[float, float, float, str]


class Candidate(msgspec.Struct, frozen=True):
    """A pending, ranked job in its leaf's order: the whole amount that it asks for, over all its nodes."""

    job: int
    priority: int
    amount: Resources


class _Live:
    """One queue's state during a cycle."""

    __slots__ = ("best", "best_from", "children", "heap", "key", "pending", "queue", "used", "waiting")

    def __init__(self, queue: QueueView, used: Resources) -> None:
        self.queue = queue
        self.used = dict(used)
        self.pending: Resources = {}
        self.waiting: deque[Candidate] = deque()
        self.best_from: deque[int] = deque()
        self.children: list[_Live] = []
        self.heap: list[tuple[Key, int]] = []
        self.best: int | None = None
        self.key: Key | None = None


class Traversal:
    """Iterate to get (queue id, candidate); call :meth:`started` for those that were placed before going on."""

    def __init__(
        self,
        queues: Sequence[QueueView],
        candidates: Mapping[int, Sequence[Candidate]],
        used: Mapping[int, Resources],
        total: Resources,
    ) -> None:
        self._total = total
        self._live = {queue.id: _Live(queue, used.get(queue.id, {})) for queue in queues}
        self._root = self._live[queues[0].id]
        for live in self._live.values():
            if live.queue.parent is not None:
                self._live[live.queue.parent].children.append(live)
        for queue, jobs in candidates.items():
            self._fill(queue, jobs)
        self._refresh_below(self._root)

    def _fill(self, queue: int, jobs: Sequence[Candidate]) -> None:
        leaf = self._live[queue]
        leaf.waiting.extend(jobs)
        leaf.best_from.extendleft(accumulate((job.priority for job in reversed(jobs)), max))
        total: Resources = {}
        for job in jobs:
            _add(total, job.amount)
        for live in self._path(queue):
            _add(live.pending, total)

    def _path(self, queue: int) -> Iterator[_Live]:
        """From the leaf up to the root."""
        at: int | None = queue
        while at is not None:
            live = self._live[at]
            yield live
            at = live.queue.parent

    def _refresh_below(self, live: _Live) -> None:
        for child in live.children:
            self._refresh_below(child)
        self._refresh(live)

    def _refresh(self, live: _Live) -> None:
        """The queue's best remaining job and its key, pushed onto the parent's heap."""
        live.best = self._best(live)
        parent = live.queue.parent
        if live.best is None or parent is None:
            live.key = None
            return
        above = self._live[parent]
        live.key = sort_key(
            lifted_priority(live.best, live.queue.properties),
            fair_share(live.used, live.queue.guaranteed, live.queue.effective_max),
            pending_weight(live.pending, self._total),
            live.queue.path,
            by_priority=above.queue.properties.sort_priority,
        )
        heapq.heappush(above.heap, (live.key, live.queue.id))

    def _best(self, live: _Live) -> int | None:
        """The highest priority that the queue's remaining jobs show inside it."""
        if not live.children:
            return live.best_from[0] if live.best_from else None
        shown = self._first_child(live)
        if shown is None:
            return None
        if live.queue.properties.sort_priority:
            return lifted_priority(shown.best, shown.queue.properties)
        lifted = (lifted_priority(child.best, child.queue.properties) for child in live.children)
        return max((priority for priority in lifted if priority is not None), default=None)

    def _first_child(self, live: _Live) -> _Live | None:
        """The child at the top of the heap, outdated entries dropped."""
        while live.heap:
            key, queue = live.heap[0]
            if self._live[queue].key == key:
                return self._live[queue]
            heapq.heappop(live.heap)
        return None

    def __iter__(self) -> Iterator[tuple[int, Candidate]]:
        """Each candidate once, in the order in which it is its turn."""
        while (leaf := self._next_leaf()) is not None:
            candidate = leaf.waiting.popleft()
            leaf.best_from.popleft()
            yield leaf.queue.id, candidate
            for live in self._path(leaf.queue.id):
                self._refresh(live)

    def _next_leaf(self) -> _Live | None:
        live: _Live | None = self._root
        while live is not None and live.children:
            live = self._first_child(live)
        return live if live is not None and live.waiting else None

    def started(self, queue: int, asked: Resources, given: Resources) -> None:
        """The candidate just handed out was placed: no more pending, used instead, on the whole path.

        It may have been given less than it asked for: fewer nodes.
        """
        for live in self._path(queue):
            _add(live.used, given)
            for kind, value in asked.items():
                live.pending[kind] = live.pending.get(kind, 0) - value

    def room(self, queue: int) -> Resources:
        """What the configured maxima on the path leave, of the types that they name."""
        left: Resources = {}
        for live in self._path(queue):
            for kind, most in live.queue.maximum.items():
                own = most - live.used.get(kind, 0)
                left[kind] = min(own, left.get(kind, own))
        return left

    def over_quota(self, queue: int, amount: Resources) -> tuple[str, str] | None:
        """The first queue on the path whose configured maximum the amount would break, and the resource."""
        for live in self._path(queue):
            for kind, value in amount.items():
                if kind in live.queue.maximum and live.used.get(kind, 0) + value > live.queue.maximum[kind]:
                    return live.queue.path, kind
        return None


def _add(total: Resources, amount: Mapping[str, int]) -> None:
    for kind, value in amount.items():
        total[kind] = total.get(kind, 0) + value

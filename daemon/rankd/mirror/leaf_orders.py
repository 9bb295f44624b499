"""The scheduler's copy of the ranking: the jobs of each leaf in order, updated with every generation.

A full generation consists of arrays, leaf by leaf, added at once or in advance (:mod:`rankd.mirror.staged_order`). For
a delta, only the changed chunks are added, and only the leaves that they name are rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.delta import Entries
from rankd.store.feed.order import DeltaChanges, NewestGeneration, RankedLeaf


class LeafOrder(NamedTuple):
    """A leaf's ranked jobs, first to run first: ids and priorities, int64 (n_jobs,).

    An order never changes: the same object means the same jobs with the same priorities. So readers may keep it and
    compare it with ``is`` (:mod:`rankd.mirror.waiting_leaves` does so).
    """

    ids: IntArray
    priorities: IntArray


_NO_ENTRIES = Entries(*(np.empty(0, dtype=np.int64) for _ in range(4)))
_NO_LEAF = RankedLeaf(*(np.empty(0, dtype=np.int64) for _ in range(3)))


class LeafOrders:
    """The newest known generation. ``revision``: the last job event that it includes.

    ``version`` grows with every change. ``base``: the full generation on which the newest one is based. ``followed``:
    the newest generation whose delta is included.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.revision = 0
        self.base = 0
        self.version = 0
        self.followed = 0
        self._changed_in: dict[int, int] = {}
        """The leaves that differ from the base, or were added after it, with the last version that changed them."""
        self._based_in = 0
        """The version in which the base was set."""
        self._leaves: dict[int, RankedLeaf] = {}
        self._chunks: dict[int, Entries] = {}
        self._entries = _NO_ENTRIES
        self._merged: dict[int, LeafOrder] = {}
        self._of_leaf: dict[int, IntArray] = {}
        self._inserted: dict[int, int] = {}

    @classmethod
    def of_staged(cls, base: int, revision: int) -> LeafOrders:
        """Orders for a full generation that is not visible yet; :meth:`add` adds its leaves."""
        orders = cls()
        orders.base, orders.revision = base, revision
        return orders

    def add(self, leaves: Mapping[int, RankedLeaf]) -> None:
        """Add leaves of the staged generation."""
        self.version += 1
        self._leaves.update(leaves)
        for queue in leaves:
            self._mark_changed(queue)

    def mark_empty(self, leaves: Collection[int]) -> None:
        """Note leaves that have no jobs in this generation but had some in the one before."""
        self.version += 1
        self._changed_in.update(dict.fromkeys(leaves, self.version))

    def begin(self, base: int, leaves: dict[int, RankedLeaf]) -> None:
        """Begin again with all leaves of the full generation ``base``."""
        self.base, self._leaves, self._chunks, self._merged, self.followed = base, leaves, {}, {}, 0
        self.version += 1
        self._changed_in, self._based_in = {}, self.version

    def follow(self, newest: NewestGeneration, delta: DeltaChanges) -> None:
        """Follow the newest generation, with the changes of its delta since :attr:`followed`."""
        self.version += 1
        self._change_chunks(delta)
        self.generation = self.followed = newest.number
        self.revision = newest.revision

    def changed_since(self, version: int) -> set[int] | None:
        """The leaves that may have changed since that version; None means all leaves."""
        if version < self._based_in:
            return None
        return {queue for queue, at in self._changed_in.items() if at > version}

    def _change_chunks(self, delta: DeltaChanges) -> None:
        gone = self._chunks.keys() - delta.places
        before = [self._chunks[chunk] for chunk in gone | delta.changed.keys() if chunk in self._chunks]
        self._chunks.update(delta.changed)
        for chunk in gone:
            del self._chunks[chunk]
        for entries in [*before, *delta.changed.values()]:
            for queue in np.unique(entries.queues).tolist():
                self._mark_changed(queue)
        parts = [self._chunks[chunk] for chunk in delta.places]
        self._entries = Entries(*map(np.concatenate, zip(*parts, strict=True))) if parts else _NO_ENTRIES
        self._index()

    def _mark_changed(self, queue: int) -> None:
        self._merged.pop(queue, None)
        self._changed_in[queue] = self.version

    def _index(self) -> None:
        """Index the entries by leaf, and inserted jobs by id."""
        queues = self._entries.queues
        order = np.argsort(queues, kind="stable")
        firsts = np.flatnonzero(np.diff(queues[order], prepend=-1))
        self._of_leaf = dict(zip(queues[order][firsts].tolist(), np.split(order, firsts[1:]), strict=False))
        inserted = np.flatnonzero(self._entries.positions > 0)
        self._inserted = dict(zip(self._entries.ids[inserted].tolist(), inserted.tolist(), strict=True))

    def queues(self) -> set[int]:
        """The leaves that may have ranked jobs."""
        return self._leaves.keys() | self._of_leaf.keys()

    def leaf(self, queue: int) -> LeafOrder:
        """The ranked jobs of a leaf."""
        if queue not in self._merged:
            self._merged[queue] = self._put_together(queue)
        return self._merged[queue]

    def _put_together(self, queue: int) -> LeafOrder:
        base = self._leaves.get(queue, _NO_LEAF)
        if queue not in self._of_leaf:
            return LeafOrder(base.ids, base.priorities)
        own = self._of_leaf[queue]
        positions = self._entries.positions[own]
        kept = np.flatnonzero(~np.isin(base.ranks, -positions[positions < 0], assume_unique=True))
        inserted = own[positions > 0]
        at = np.searchsorted(base.ranks[kept], self._entries.positions[inserted])
        return LeafOrder(
            np.insert(base.ids[kept], at, self._entries.ids[inserted]),
            np.insert(base.priorities[kept], at, self._entries.priorities[inserted]),
        )

    def places(self, queue: int) -> IntArray:
        """For each job of :meth:`leaf`, a number that grows with its rank among all leaves, int64 (n_jobs,)."""
        base = self._leaves.get(queue, _NO_LEAF)
        if queue not in self._of_leaf:
            return base.ranks
        own = self._of_leaf[queue]
        positions = self._entries.positions[own]
        kept = base.ranks[~np.isin(base.ranks, -positions[positions < 0], assume_unique=True)]
        inserted = positions[positions > 0]
        return np.insert(kept, np.searchsorted(kept, inserted), inserted)

    def ranks(self, jobs: Mapping[int, int]) -> dict[int, int]:
        """The ranks of ranked jobs; ``jobs`` has the leaf of each job."""
        shifts = np.concatenate([[0], np.cumsum(np.sign(self._entries.positions))])
        positions = np.abs(self._entries.positions)
        ranks = {}
        for job, queue in jobs.items():
            place = self._inserted.get(job)
            if place is not None:
                ranks[job] = int(positions[place] + shifts[place])
                continue
            base = self._leaves[queue]
            rank = int(base.ranks[np.flatnonzero(base.ids == job)[0]])
            ranks[job] = rank + int(shifts[np.searchsorted(positions, rank, side="right")])
        return ranks

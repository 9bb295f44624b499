"""The scheduler's view of the ranking: the jobs of each leaf in their order, kept up from generation to generation.

A full generation is read as arrays, leaf by leaf, at once or beforehand (:mod:`rankd.services.scheduler.ahead`). Of a
delta only the chunks of entries are read that have changed, and only the leaves that they name are put together again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.ranking.columns import IntArray
from rankd.store.engine.connection import Connection

_NEWEST = "SELECT number, base, revision, ranked_at FROM generations ORDER BY number DESC LIMIT 1"
_NEW_JOBS = "SELECT coalesce(sum(new_jobs), 0) FROM generations WHERE number > ?"
_LEAVES = """
SELECT queue_id, ids, priorities, ranks FROM ranking_leaves WHERE generation = ? AND queue_id BETWEEN ? AND ?
ORDER BY queue_id, chunk"""
_CHANGED = "SELECT chunk, positions, ids, priorities, queues FROM ranking_deltas WHERE generation = ? AND number > ?"
_PLACES = "SELECT chunk FROM ranking_delta_places WHERE generation = ? ORDER BY first_position, place"

_INTEGERS = msgspec.json.Decoder(list[int])
_N_COLUMNS = 4
MAX_ID = 2**63 - 1


class LeafOrder(NamedTuple):
    """A leaf's ranked jobs, first to run first: ids and priorities, int64 (n_jobs,)."""

    ids: IntArray
    priorities: IntArray


class _Entries(NamedTuple):
    """Of a delta, as :class:`rankd.core.ranking.delta.Entries`."""

    positions: IntArray
    ids: IntArray
    priorities: IntArray
    queues: IntArray


_NOTHING = _Entries(*(np.empty(0, dtype=np.int64) for _ in range(_N_COLUMNS)))


class Newest(NamedTuple):
    """The newest visible generation: its number, the full one that it stands on, its last event, its instant."""

    number: int
    base: int
    revision: int
    ranked_at: float


def newest_generation(connection: Connection) -> Newest | None:
    """None before the first."""
    row = connection.exec_driver_sql(_NEWEST).first()
    return None if row is None else Newest(*row)


class BaseLeaf(NamedTuple):
    """A leaf in the full generation: ids and priorities, int64 (n_jobs,), and ranks, int32 (n_jobs,)."""

    ids: IntArray
    priorities: IntArray
    ranks: IntArray


_NO_LEAF = BaseLeaf(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def read_leaves(connection: Connection, generation: int, first: int, last: int) -> dict[int, BaseLeaf]:
    """Leaves of a full generation, visible or staged, whose ids are in this range."""
    parts: dict[int, list[BaseLeaf]] = {}
    raw = connection.connection.cursor()  # the driver's: rows of SQLAlchemy take as long again
    raw.execute(_LEAVES, (generation, first, last))
    for queue, ids, priorities, ranks in raw.fetchall():
        leaf = BaseLeaf(
            np.frombuffer(ids, dtype="<i8"),
            np.frombuffer(priorities, dtype="<i4").astype(np.int64),
            np.frombuffer(ranks, dtype="<i4"),
        )
        parts.setdefault(queue, []).append(leaf)
    return {
        queue: own[0] if len(own) == 1 else BaseLeaf(*map(np.concatenate, zip(*own, strict=True)))
        for queue, own in parts.items()
    }


class LeafOrders:
    """The newest generation that was read. ``revision``: the last event that it knows.

    ``version`` is another one whenever anything is. ``base``: the full generation that it stands on.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.revision = 0
        self.base = 0
        self.version = 0
        self._followed = 0
        """The newest generation whose delta has been read."""
        self._changed: dict[int, int] = {}
        """Leaves that are not as the base has them, or came later than it, by the version that made them so."""
        self._based = 0
        """The version in which the base came."""
        self._leaves: dict[int, BaseLeaf] = {}
        self._chunks: dict[int, _Entries] = {}
        self._entries = _NOTHING
        self._merged: dict[int, LeafOrder] = {}
        self._of_leaf: dict[int, IntArray] = {}
        self._inserted: dict[int, int] = {}

    @classmethod
    def begun(cls, base: int, revision: int) -> LeafOrders:
        """Of a full generation whose leaves come by :meth:`add`, before it is visible."""
        order = cls()
        order.base, order.revision = base, revision
        return order

    def add(self, leaves: Mapping[int, BaseLeaf]) -> None:
        """More of its leaves."""
        self.version += 1
        self._leaves.update(leaves)
        for queue in leaves:
            self._merged.pop(queue, None)
            self._changed[queue] = self.version

    def drop(self, leaves: Collection[int]) -> None:
        """These have no jobs in it; another order had them."""
        self.version += 1
        self._changed.update(dict.fromkeys(leaves, self.version))

    def read(self, connection: Connection, newest: Newest) -> None:
        """Take in the newest generation."""
        if newest.base != self.base:
            self._stand_on(newest.base, read_leaves(connection, newest.base, 0, MAX_ID))
        self.version += 1
        self._read_delta(connection, self._followed)
        self.generation = self._followed = newest.number
        self.revision = newest.revision

    def _stand_on(self, base: int, leaves: dict[int, BaseLeaf]) -> None:
        self.base, self._leaves, self._chunks, self._merged, self._followed = base, leaves, {}, {}, 0
        self.version += 1
        self._changed, self._based = {}, self.version

    def changed_since(self, version: int) -> set[int] | None:
        """The leaves that may be others than they were in that version; None: all."""
        if version < self._based:
            return None
        return {queue for queue, at in self._changed.items() if at > version}

    def new_jobs(self, connection: Connection) -> int:
        """How many jobs are new in the generations since the one that was read last."""
        return int(connection.exec_driver_sql(_NEW_JOBS, (self.generation,)).scalar_one())

    def _read_delta(self, connection: Connection, since: int) -> None:
        changed = connection.exec_driver_sql(_CHANGED, (self.base, since)).all()
        places = [row[0] for row in connection.exec_driver_sql(_PLACES, (self.base,))]
        gone = self._chunks.keys() - places
        before = [self._chunks[chunk] for chunk in {*gone, *(row[0] for row in changed)} if chunk in self._chunks]
        for chunk, *texts in changed:
            self._chunks[chunk] = _Entries(*(np.array(_INTEGERS.decode(text), dtype=np.int64) for text in texts))
        for chunk in gone:
            del self._chunks[chunk]
        after = [self._chunks[row[0]] for row in changed]
        for entries in before + after:
            for queue in np.unique(entries.queues).tolist():
                self._merged.pop(queue, None)
                self._changed[queue] = self.version
        parts = [self._chunks[chunk] for chunk in places]
        self._entries = _Entries(*map(np.concatenate, zip(*parts, strict=True))) if parts else _NOTHING
        self._index()

    def _index(self) -> None:
        """Which entries are of which leaf, and where each inserted job's is."""
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

    def ranks(self, jobs: Mapping[int, int]) -> dict[int, int]:
        """The ranks of ranked jobs, given by job and leaf."""
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

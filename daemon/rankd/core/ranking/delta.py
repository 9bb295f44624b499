"""The order of a delta generation: the jobs inserted and removed since a full pass.

    rank = rank in the pass + inserted before - removed before

Inserted jobs are kept in their order. Each has the rank of the pass before which it is inserted. Of removed jobs, their
ranks of the pass are kept. Both together, in order, are the entries of the delta. The cost of a change grows with its
own size and with the size of the delta, not with the size of the queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankd.core.ranking.base_order import BaseOrder
from rankd.core.ranking.columns import BoolArray, IntArray, JobColumns
from rankd.core.ranking.job_comparison import JobKeys, earlier, search, sorted_places
from rankd.core.ranking.order import Applications


class Inserted(NamedTuple):
    """Jobs that the pass does not rank, or that have changed since, in their order.

    ``positions``: the rank of the pass before which each is inserted.
    """

    ids: IntArray
    queues: IntArray
    priorities: IntArray
    positions: IntArray
    job_keys: JobKeys

    def __len__(self) -> int:
        """How many jobs."""
        return len(self.ids)

    def take(self, places: IntArray) -> Inserted:
        """The jobs at ``places``."""
        ids, queues, priorities, positions = (column[places] for column in self[:4])
        return Inserted(ids, queues, priorities, positions, self.job_keys.take(places))

    def merged(self, other: Inserted, at: IntArray) -> Inserted:
        """These jobs and those of ``other``. ``other[i]`` is inserted before the place ``at[i]`` of these."""
        if not len(other):
            return self
        order = np.insert(np.arange(len(self)), at, len(self) + np.arange(len(at)))
        pairs = zip([*self[:4], *self.job_keys], [*other[:4], *other.job_keys], strict=True)
        columns = [np.concatenate(pair)[order] for pair in pairs]
        return Inserted(columns[0], columns[1], columns[2], columns[3], JobKeys(*columns[4:]))


class Entries(NamedTuple):
    """The delta in order, each int64 (n_entries,).

    ``positions``: +p is a job inserted before rank p of the pass; -p is the removed job of rank p. ``queues``: the
    queue ids of all jobs. ``ids`` and ``priorities``: of inserted jobs; 0 for removed ones.
    """

    positions: IntArray
    ids: IntArray
    priorities: IntArray
    queues: IntArray


class Edit(NamedTuple):
    """How the entries changed.

    ``deleted``: places among the old entries. ``added``: for each new entry, in order, the place among the old entries
    before which it was inserted.
    """

    deleted: IntArray
    added: IntArray


class Delta:
    """Changes to the order of one full pass. They are added in batches."""

    def __init__(self, base: BaseOrder) -> None:
        self.base = base
        none = np.empty(0, dtype=np.int64)
        job_keys = JobKeys(none, np.empty((0, base.hierarchy.n_depths), dtype=np.int64), np.empty((0, 7)))
        self.removed: IntArray = none
        self.inserted = Inserted(none, none, none, none, job_keys)
        self._inserted_ids: set[int] = set()

    def __len__(self) -> int:
        """How many entries."""
        return len(self.removed) + len(self.inserted)

    @property
    def n_ranked(self) -> int:
        """The number of jobs in the order."""
        return len(self.base) + len(self.inserted) - len(self.removed)

    def change(self, gone: IntArray, jobs: JobColumns, priorities: IntArray, applications: Applications) -> Edit:
        """Remove the jobs ``gone``, and place ``jobs``. Jobs that were placed before are placed again.

        ``jobs`` must be eligible, and in leaves that the pass knew. ``applications`` must be all present ones.
        """
        touched = np.concatenate([gone, jobs.ids])
        removed = np.setdiff1d(self.base.rank_of(touched), np.append(self.removed, 0))
        out, kept = self._leaving(touched, jobs)
        again, staying = self.inserted.take(out), self.inserted if not len(out) else self.inserted.take(kept)
        placed = self._placed(again.take(np.flatnonzero(~np.isin(again.ids, touched))), jobs, priorities, applications)
        at = self._places_among(staying, placed)
        edit = self._edit(out, kept, at, placed.positions, removed)
        self.inserted = staying.merged(placed, at)
        self.removed = np.insert(self.removed, np.searchsorted(self.removed, removed), removed)
        self._inserted_ids.difference_update(again.ids.tolist())
        self._inserted_ids.update(placed.ids.tolist())
        return edit

    def _leaving(self, touched: IntArray, jobs: JobColumns) -> tuple[IntArray, IntArray]:
        """The places of the inserted jobs to take out, some of which are placed again later, and of those that stay.

        A job that shares a disabled queue with a changed job is placed again, because its shown priority may change.
        """
        known = self._inserted_ids.intersection(touched.tolist())
        is_out = np.isin(self.inserted.ids, list(known)) if known else np.zeros(len(self.inserted), dtype=bool)
        hierarchy, own = self.base.hierarchy, self.inserted.job_keys.leaves
        if hierarchy.disabled.any() and len(own):
            near = np.unique(hierarchy.above[np.concatenate([own[is_out], self.base.leaves(jobs.queues)])])
            frozen = near[hierarchy.disabled[near] & (near >= 0)]
            if len(frozen):
                is_out |= np.isin(hierarchy.above[own], frozen).any(axis=1)
        return np.flatnonzero(is_out), np.flatnonzero(~is_out)

    def _placed(self, again: Inserted, jobs: JobColumns, priorities: IntArray, applications: Applications) -> Inserted:
        """The new jobs and the jobs to place ``again``, in their order."""
        keys = np.concatenate([again.job_keys.keys, self.base.keys(jobs, priorities, applications)])
        leaves = np.concatenate([again.job_keys.leaves, self.base.leaves(jobs.queues)])
        all_priorities = np.concatenate([again.priorities, priorities])
        job_keys = self.base.job_keys(leaves, all_priorities, keys, applications)
        order = sorted_places(job_keys, self.base.hierarchy)
        job_keys = job_keys.take(order)
        return Inserted(
            np.concatenate([again.ids, jobs.ids])[order],
            np.concatenate([again.queues, jobs.queues])[order],
            all_priorities[order],
            self.base.positions(job_keys, applications),
            job_keys,
        )

    def _places_among(self, kept: Inserted, placed: Inserted) -> IntArray:
        """For each of ``placed``: the place among ``kept`` before which it is inserted."""
        low = np.searchsorted(kept.positions, placed.positions, side="left")
        high = np.searchsorted(kept.positions, placed.positions, side="right")

        def goes_first(middle: IntArray, asking: IntArray) -> BoolArray:
            return earlier(kept.job_keys.take(middle), placed.job_keys.take(asking), self.base.hierarchy)

        return search(low, high, goes_first)

    def _edit(self, out: IntArray, kept: IntArray, at: IntArray, positions: IntArray, removed: IntArray) -> Edit:
        old = self.inserted.positions
        deleted = out + np.searchsorted(self.removed, old[out])
        behind = np.minimum(np.append(kept, len(old))[at], np.searchsorted(old, positions, side="right"))
        inserted_at = behind + np.searchsorted(self.removed, positions)
        removed_at = np.searchsorted(old, removed, side="right") + np.searchsorted(self.removed, removed)
        keys = np.concatenate([2 * positions, 2 * removed + 1])
        added = np.concatenate([inserted_at, removed_at])[np.argsort(keys, kind="stable")]
        return Edit(deleted, added)

    def entries(self) -> Entries:
        """All changes, in order."""
        own = self.inserted
        at = np.arange(len(own)) + np.searchsorted(self.removed, own.positions)
        there = np.arange(len(self.removed)) + np.searchsorted(own.positions, self.removed, side="right")
        columns = np.zeros((4, len(self)), dtype=np.int64)
        columns[0, at], columns[0, there] = own.positions, -self.removed
        columns[1, at], columns[2, at], columns[3, at] = own.ids, own.priorities, own.queues
        columns[3, there] = self.base.jobs.queues[self.base.places[self.removed - 1]]
        return Entries(*columns)

    def head(self, limit: int) -> IntArray:
        """The ids of the first jobs, at most ``limit`` of them, the first to run first."""
        of_base = self.base.ids[: limit + len(self.removed)]
        out = self.removed[: np.searchsorted(self.removed, len(of_base), side="right")] - 1
        n_in = np.searchsorted(self.inserted.positions, len(of_base) + 1, side="right")
        gaps = self.inserted.positions[:n_in] - 1
        kept = np.delete(of_base, out)
        head: IntArray = np.insert(kept, gaps - np.searchsorted(out, gaps), self.inserted.ids[:n_in])
        return head[:limit]

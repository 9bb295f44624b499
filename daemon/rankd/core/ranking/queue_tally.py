"""The pending amounts and shown priorities of queues between full passes. Only paths of changed leaves are updated.

Fair shares and usage stay those of the pass, like all keys of a delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.ranking.base_order import BaseOrder
from rankd.core.ranking.columns import BoolArray, IntArray, JobColumns
from rankd.core.ranking.queue_key import lifted_priority
from rankd.core.ranking.queue_view import QueueView
from rankd.core.ranking.ranking import QueueRow

_NO_ARRAYS: Mapping[int, int] = {}


class _Counted(NamedTuple):
    """The values of an eligible job that its leaf counts."""

    queue: int
    shape: int
    priority: int
    tasks: int = 1


class QueueTally:
    """The queues of a full pass, from its ``rows``, and the changes since.

    ``shapes`` are those of the pass; more may be added later. ``unranked``: by leaf, the highest priority of jobs that
    are pending but not ranked, because their applications are held back. ``tasks``: the pending tasks of each array.
    """

    def __init__(
        self,
        base: BaseOrder,
        rows: Sequence[QueueRow],
        queues: Sequence[Sequence[QueueView]],
        shapes: Sequence[Resources],
        unranked: Mapping[int, int],
        tasks: Mapping[int, int] = _NO_ARRAYS,
    ) -> None:
        self._tasks = tasks
        self._base = base
        self._rows = {row.id: row for row in rows}
        self._views = {view.id: view for views in queues for view in views}
        self._children: dict[int, list[int]] = {}
        for view in self._views.values():
            if view.parent is not None:
                self._children.setdefault(view.parent, []).append(view.id)
        self._shapes = shapes
        self._unranked = unranked
        self._gone: set[int] = set()
        self._jobs: dict[int, _Counted] = {}
        self._by_leaf: dict[int, dict[int, int]] = {}
        self._firsts: dict[int, int] = {}

    def change(
        self, gone: IntArray, jobs: JobColumns, priorities: IntArray, tasks: Mapping[int, int] = _NO_ARRAYS
    ) -> list[QueueRow]:
        """Remove the jobs ``gone``, and count ``jobs``, which are all eligible. Returns the rows that changed.

        ``tasks``: the pending tasks of each array among them.
        """
        before = self._forget(np.concatenate([gone, jobs.ids]))
        numbers = [tasks.get(job, 1) for job in jobs.ids.tolist()]
        columns = zip(jobs.queues.tolist(), jobs.shapes.tolist(), priorities.tolist(), numbers, strict=True)
        after = [_Counted(*column) for column in columns]
        for job, counted in zip(jobs.ids.tolist(), after, strict=True):
            self._remember(job, counted)
        changes: Counter[tuple[int, int]] = Counter()
        for sign, some in ((1, after), (-1, before)):
            for counted in some:
                changes[counted.queue, counted.shape] += sign * counted.tasks
        touched: dict[int, None] = {}
        for (leaf, shape), more in changes.items():
            if leaf in self._views and leaf not in self._children:
                self._count(leaf, shape, more, touched)
        for queue in sorted(touched, key=self._depth, reverse=True):
            self._show(queue)
        return [self._rows[queue] for queue in touched]

    def _remember(self, job: int, counted: _Counted) -> None:
        self._jobs[job] = counted
        self._by_leaf.setdefault(counted.queue, {})[job] = counted.priority

    def _forget(self, ids: IntArray) -> list[_Counted]:
        """Remove the jobs that were counted. Returns them as they were counted."""
        jobs, found = self._base.jobs, list[_Counted]()
        places, is_of_pass = self._places(ids)
        for job, place, is_there in zip(ids.tolist(), places.tolist(), is_of_pass.tolist(), strict=True):
            known = self._jobs.pop(job, None)
            if known is not None:
                del self._by_leaf[known.queue][job]
                found.append(known)
            elif is_there and job not in self._gone:
                self._gone.add(job)
                priority = int(self._base.priorities[place])
                number = self._tasks.get(job, 1)
                found.append(_Counted(int(jobs.queues[place]), int(jobs.shapes[place]), priority, number))
        return found

    def _places(self, ids: IntArray) -> tuple[IntArray, BoolArray]:
        """The jobs' places among those of the pass, and whether each of them was there and eligible."""
        jobs = self._base.jobs
        if not len(jobs):
            return np.zeros_like(ids), np.zeros(len(ids), dtype=bool)
        places = np.minimum(np.searchsorted(jobs.ids, ids), len(jobs) - 1)
        return places, (jobs.ids[places] == ids) & ~np.isnan(jobs.eligible_at[places])

    def _count(self, leaf: int, shape: int, more: int, touched: dict[int, None]) -> None:
        """Add ``more`` jobs of a shape on the path of their leaf; a negative number removes jobs."""
        queue: int | None = leaf
        while queue is not None:
            touched[queue] = None
            row = self._rows[queue]
            pending = dict(row.pending)
            for kind, amount in self._shapes[shape].items():
                pending[kind] = pending.get(kind, 0) + more * amount
            self._rows[queue] = msgspec.structs.replace(row, pending=pending, pending_jobs=row.pending_jobs + more)
            queue = self._views[queue].parent

    def _depth(self, queue: int) -> int:
        return self._views[queue].path.count(".")

    def _show(self, queue: int) -> None:
        """Update what the queue shows. Its children are up to date."""
        view, row = self._views[queue], self._rows[queue]
        shown = (self._rows[child].priority for child in self._children.get(queue, ()))
        of_children = max((priority for priority in shown if priority is not None), default=None)
        best = of_children if queue in self._children else self._best(queue)
        priority = best if view.parent is None else lifted_priority(best, view.properties)
        pending = {} if not row.pending_jobs else {kind: value for kind, value in row.pending.items() if value}
        self._rows[queue] = msgspec.structs.replace(row, priority=priority, pending=pending)

    def _best(self, leaf: int) -> int | None:
        """The highest priority of the leaf's pending jobs."""
        found = [*self._by_leaf.get(leaf, {}).values()]
        found += [priority for priority in (self._best_of_pass(leaf), self._unranked.get(leaf)) if priority is not None]
        return max(found, default=None)

    def _best_of_pass(self, leaf: int) -> int | None:
        """The highest priority of the leaf's ranked jobs of the pass that are left; None if none is left.

        If priority counts in the leaf, this is the first of them.
        """
        ranks, bounds = self._base.by_leaf
        place = int(self._base.leaves(np.array([leaf]))[0])
        own = self._base.places[ranks[bounds[place] : bounds[place + 1]]]
        if self._views[leaf].properties.sort_priority:
            first = self._firsts.get(leaf, 0)
            while first < len(own) and int(self._base.jobs.ids[own[first]]) in self._gone:
                first += 1
            self._firsts[leaf] = first
            return int(self._base.priorities[own[first]]) if first < len(own) else None
        left = own[~np.isin(self._base.jobs.ids[own], list(self._gone))]
        return int(self._base.priorities[left].max()) if len(left) else None

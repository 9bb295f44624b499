"""The jobs of each leaf that a cycle considers, kept from cycle to cycle. Only changed leaves are made again.

Contract for readers: as long as a leaf's columns are the same objects, its jobs are the same. The columns of a
:class:`WaitingJobs` are never changed in place. If only priorities changed, all other columns stay the same objects. So
a cycle's memory compares them with ``is``. (:mod:`rankd.mirror.leaf_orders` has the same contract for orders.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, KeysView, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.placement.problem import WaitingJobs
from rankd.core.placement.task_turn import in_turn
from rankd.core.ranking.columns import IntArray
from rankd.mirror.leaf_orders import LeafOrder, LeafOrders
from rankd.mirror.pending_table import PendingTable
from rankd.mirror.unranked import NO_UNRANKED, Unranked, by_leaf, unranked_jobs


class _LeafRows(NamedTuple):
    """A leaf's order, and the rows of its jobs in the pending table as long as the table has this layout."""

    order: LeafOrder
    layout: int
    rows: IntArray


class WaitingLeaves:
    """The waiting jobs of all leaves. :meth:`look` updates them from the order and the table."""

    def __init__(self, order: LeafOrders, table: PendingTable) -> None:
        self.unranked = NO_UNRANKED
        self._order = order
        self._table = table
        self._rows: dict[int, _LeafRows] = {}
        self._made_of: dict[int, LeafOrder] = {}
        self._waiting: dict[int, WaitingJobs] = {}
        self._unsettled: set[int] = set()
        self._basis: tuple[int, frozenset[int]] = (-1, frozenset())
        """The version of the kinds, and the leaves by usage, with which everything was made."""
        self._seen: tuple[int, ...] = ()
        self._changes = 0
        """The number of the table's changes that are included."""
        self._version = -1
        """The version of the order that is included."""
        self._revision = 0

    def successor(self, order: LeafOrders) -> WaitingLeaves:
        """A copy for another order, which follows it leaf by leaf as that order reports changes."""
        other = WaitingLeaves(order, self._table)
        other._rows, other._made_of, other._waiting = self._rows.copy(), self._made_of.copy(), self._waiting.copy()
        other._unsettled, other.unranked = self._unsettled.copy(), self.unranked
        other._basis, other._changes, other._revision = self._basis, self._changes, self._revision
        other._version = order.version
        return other

    def sizes(self) -> dict[int, int]:
        """The number of jobs of each leaf."""
        return {queue: len(own.jobs) for queue, own in self._waiting.items()}

    def leaves(self) -> KeysView[int]:
        """The leaves with jobs."""
        return self._waiting.keys()

    def look(
        self, by_usage: frozenset[int], *, is_stale: bool, unranked: Callable[[], Unranked]
    ) -> Mapping[int, WaitingJobs]:
        """The waiting jobs of each leaf that has any.

        ``by_usage``: leaves that need the applications and the times of submission: those that sort applications by
        their resource usage, and with the backfill order ``shortest`` all. ``unranked`` returns the jobs that come
        after the ranked ones; it is called while the order ``is_stale``.
        """
        order, table = self._order, self._table
        seen = (order.version, table.layout, table.changes, int(is_stale))
        basis = (table.known_kinds.version, by_usage)
        is_new = self._basis != basis
        if seen == self._seen and not is_new:
            return self._waiting
        if is_new:
            self._made_of, self._waiting = {}, {}
        before = by_leaf(self.unranked, table.columns).keys() if len(self.unranked.rows) else set()
        self.unranked = unranked() if is_stale else NO_UNRANKED
        behind = by_leaf(self.unranked, table.columns)
        again = table.touched_since(self._changes) | self._unsettled | behind.keys() | before
        others = order.changed_since(self._version)
        if order.revision < self._revision:
            again |= table.leaves_beyond(order.revision)  # events that this order does not include
        if others is None or is_new:
            others = order.queues() | self._waiting.keys()
        self._waiting = self._put_together(others | again, again, behind, by_usage)
        self._revision, self._version, self._changes = order.revision, order.version, table.changes
        self._basis, self._seen = basis, seen
        return self._waiting

    def _put_together(
        self, others: set[int], again: Collection[int], behind: Mapping[int, Unranked], by_usage: Collection[int]
    ) -> dict[int, WaitingJobs]:
        """All leaves. Those in ``others`` may have changed; those in ``again`` even if their order is the same."""
        waiting, order = self._waiting.copy(), self._order
        for queue in others:
            leaf = order.leaf(queue)
            own, known = waiting.get(queue), self._made_of.get(queue)
            if own is None or known is None or queue in again:
                own = self._still_waiting(queue, behind.get(queue, NO_UNRANKED), by_usage=queue in by_usage)
            elif known is not leaf:
                own = self._reranked(queue, own, by_usage=queue in by_usage)
            self._made_of[queue] = leaf
            if len(own.jobs):
                waiting[queue] = own
            else:
                waiting.pop(queue, None)
        return waiting

    def _reranked(self, queue: int, own: WaitingJobs, *, by_usage: bool) -> WaitingJobs:
        """A leaf whose order has changed while its jobs have not.

        If only priorities changed, the other columns stay the same objects.
        """
        leaf = self._order.leaf(queue)
        if not np.array_equal(leaf.ids, own.jobs):
            return self._still_waiting(queue, NO_UNRANKED, by_usage=by_usage)
        self._rows[queue] = self._rows[queue]._replace(order=leaf)
        return msgspec.structs.replace(own, priorities=leaf.priorities)

    def _still_waiting(self, queue: int, behind: Unranked, *, by_usage: bool) -> WaitingJobs:
        """The jobs of a leaf that a cycle considers, in order."""
        columns, (ids, priorities, rows) = self._table.columns, self._fresh(queue)
        n_ranked, turns = len(ids), self._table.turns()
        if len(behind.rows):
            rows = np.concatenate([rows, behind.rows])
            ids, priorities = columns.ids[rows], np.concatenate([priorities, behind.priorities])
        waiting = WaitingJobs(
            jobs=ids,
            priorities=priorities,
            kinds=columns.kinds[rows],
            applications=columns.applications[rows] if by_usage else None,
            submitted_at=columns.submitted_at[rows] if by_usage else None,
            tasks=self._table.tasks_of(queue, ids) if self._table.arrays else None,
        )
        return in_turn(waiting, turns, self._table.indices, n_ranked) if turns else waiting

    def _fresh(self, queue: int) -> tuple[IntArray, IntArray, IntArray]:
        """Ids, priorities and rows of a leaf's ranked jobs that have not changed since the generation."""
        columns, (order, _, rows) = self._table.columns, self._rows_of(queue)
        ids, priorities = order.ids, order.priorities
        n_ranked = len(rows)
        if not (known := rows >= 0).all():
            ids, priorities, rows = ids[known], priorities[known], rows[known]
        is_known = columns.revisions[rows] <= self._order.revision
        fresh = columns.is_pending[rows] & is_known & (columns.queues[rows] == queue)
        if not fresh.all():
            ids, priorities, rows = ids[fresh], priorities[fresh], rows[fresh]
        if len(rows) < n_ranked:
            self._unsettled.add(queue)  # a later generation may include them again
        else:
            self._unsettled.discard(queue)
        return ids, priorities, rows

    def _rows_of(self, queue: int) -> _LeafRows:
        """The rows of a leaf. Looked up again only if its order or the table's layout has changed."""
        order, known, table = self._order.leaf(queue), self._rows.get(queue), self._table
        if known is None or known.order is not order or known.layout != table.layout or (known.rows < 0).any():
            known = self._rows[queue] = _LeafRows(order, table.layout, table.lookup(order.ids))
        return known

    def not_ranked(self, filtering: Collection[int], running: Collection[int]) -> Unranked:
        """The jobs that come after an overdue generation (see :func:`.unranked_jobs`)."""
        rows = [self._fresh(queue)[2] for queue in self._order.queues()]
        ranked = np.concatenate([np.empty(0, dtype=np.int64), *rows])
        return unranked_jobs(self._table.columns, ranked, filtering, running)

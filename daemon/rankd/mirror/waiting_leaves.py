"""The jobs of each leaf that a cycle looks at, kept from look to look: only leaves in which something changed are new.

A leaf keeps the same columns, the same objects, until its order is another one, or one of its jobs has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, KeysView, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.columns import IntArray
from rankd.mirror.leaf_orders import LeafOrder, LeafOrders
from rankd.mirror.pending_table import PendingTable
from rankd.mirror.unranked import NOTHING, Unranked, by_leaf, unranked_jobs


class _Rows(NamedTuple):
    """A leaf's order with the rows of its jobs in the pending table (of that layout)."""

    order: LeafOrder
    layout: int
    rows: IntArray


class WaitingLeaves:
    """What :meth:`look` gives is of the order and the table as they are then."""

    def __init__(self, order: LeafOrders, table: PendingTable) -> None:
        self.unranked = NOTHING
        self._order = order
        self._table = table
        self._rows: dict[int, _Rows] = {}
        self._of: dict[int, LeafOrder] = {}
        self._waiting: dict[int, WaitingJobs] = {}
        self._unsettled: set[int] = set()
        self._basis: tuple[object, frozenset[int]] = (None, frozenset())
        self._seen: tuple[int, ...] = ()
        self._changes = 0
        """Those of the table that are known."""
        self._version = -1
        """That of the order which is known."""
        self._revision = 0

    def successor(self, order: LeafOrders) -> WaitingLeaves:
        """As it is now, to go over to another order leaf by leaf, as that says which have changed."""
        other = WaitingLeaves(order, self._table)
        other._rows, other._of, other._waiting = self._rows.copy(), self._of.copy(), self._waiting.copy()
        other._unsettled, other.unranked = self._unsettled.copy(), self.unranked
        other._basis, other._changes, other._revision = self._basis, self._changes, self._revision
        other._version = order.version
        return other

    def sizes(self) -> dict[int, int]:
        """How many jobs each of them has."""
        return {queue: len(own.jobs) for queue, own in self._waiting.items()}

    def leaves(self) -> KeysView[int]:
        """Those that have jobs."""
        return self._waiting.keys()

    def look(
        self, by_usage: frozenset[int], *, is_stale: bool, unranked: Callable[[], Unranked]
    ) -> Mapping[int, WaitingJobs]:
        """By leaf, those that have jobs.

        ``by_usage``: leaves whose applications go by what they use. ``unranked``: asked, while the order
        ``is_stale``, for what goes behind it.
        """
        order, table = self._order, self._table
        seen = (order.version, table.layout, table.changes, int(is_stale))
        basis = (table.kind_table, by_usage)
        is_new = self._basis[0] is not basis[0] or self._basis[1] != by_usage
        if seen == self._seen and not is_new:
            return self._waiting
        if is_new:
            self._of, self._waiting = {}, {}
        before = by_leaf(self.unranked, table).keys() if len(self.unranked.rows) else set()
        self.unranked = unranked() if is_stale else NOTHING
        behind = by_leaf(self.unranked, table)
        again = table.touched_since(self._changes) | self._unsettled | behind.keys() | before
        others = order.changed_since(self._version)
        if order.revision < self._revision:
            again |= table.leaves_beyond(order.revision)  # what it does not know any more is their jobs' last event
        if others is None or is_new:
            others = order.queues() | self._waiting.keys()
        self._waiting = self._put_together(others | again, again, behind, by_usage)
        self._revision, self._version, self._changes = order.revision, order.version, table.changes
        self._basis, self._seen = basis, seen
        return self._waiting

    def _put_together(
        self, others: set[int], again: Collection[int], behind: Mapping[int, Unranked], by_usage: Collection[int]
    ) -> dict[int, WaitingJobs]:
        """All leaves, of which ``others`` may be others than they were; ``again``: though their order is the same."""
        waiting, order = self._waiting.copy(), self._order
        for queue in others:
            leaf = order.leaf(queue)
            own, known = waiting.get(queue), self._of.get(queue)
            if own is None or known is None or queue in again:
                own = self._still_waiting(queue, behind.get(queue, NOTHING), by_usage=queue in by_usage)
            elif known is not leaf:
                own = self._reranked(queue, own, by_usage=queue in by_usage)
            self._of[queue] = leaf
            if len(own.jobs):
                waiting[queue] = own
            else:
                waiting.pop(queue, None)
        return waiting

    def _reranked(self, queue: int, own: WaitingJobs, *, by_usage: bool) -> WaitingJobs:
        """A leaf whose order is another one, though nothing is known of its jobs that was not before.

        If only priorities are other ones, the other columns stay the same objects.
        """
        leaf = self._order.leaf(queue)
        if not np.array_equal(leaf.ids, own.jobs):
            return self._still_waiting(queue, NOTHING, by_usage=by_usage)
        self._rows[queue] = self._rows[queue]._replace(order=leaf)
        return msgspec.structs.replace(own, priorities=leaf.priorities)

    def _still_waiting(self, queue: int, behind: Unranked, *, by_usage: bool) -> WaitingJobs:
        """The jobs of a leaf that a cycle looks at, in their order."""
        table, (ids, priorities, rows) = self._table, self._fresh(queue)
        if len(behind.rows):
            rows = np.concatenate([rows, behind.rows])
            ids, priorities = table.ids[rows], np.concatenate([priorities, behind.priorities])
        return WaitingJobs(
            jobs=ids,
            priorities=priorities,
            kinds=table.kinds[rows],
            applications=table.applications[rows] if by_usage else None,
            submitted_at=table.submitted_at[rows] if by_usage else None,
        )

    def _fresh(self, queue: int) -> tuple[IntArray, IntArray, IntArray]:
        """Ids, priorities and rows of the ranked jobs of a leaf that are as the generation knew them."""
        table, (order, _, rows) = self._table, self._rows_of(queue)
        ids, priorities = order.ids, order.priorities
        n_ranked = len(rows)
        if not (known := rows >= 0).all():
            ids, priorities, rows = ids[known], priorities[known], rows[known]
        fresh = table.is_pending[rows] & (table.revisions[rows] <= self._order.revision) & (table.queues[rows] == queue)
        if not fresh.all():
            ids, priorities, rows = ids[fresh], priorities[fresh], rows[fresh]
        if len(rows) < n_ranked:
            self._unsettled.add(queue)  # a later generation may know them again
        else:
            self._unsettled.discard(queue)
        return ids, priorities, rows

    def _rows_of(self, queue: int) -> _Rows:
        """Looked up again only where the leaf's order, or the table's layout, is another one."""
        order, known, table = self._order.leaf(queue), self._rows.get(queue), self._table
        if known is None or known.order is not order or known.layout != table.layout or (known.rows < 0).any():
            known = self._rows[queue] = _Rows(order, table.layout, table.lookup(order.ids))
        return known

    def not_ranked(self, filtering: Collection[int], running: Collection[int]) -> Unranked:
        """What goes behind an overdue generation, as :func:`.unranked_jobs` has it."""
        rows = [self._fresh(queue)[2] for queue in self._order.queues()]
        ranked = np.concatenate([np.empty(0, dtype=np.int64), *rows])
        return unranked_jobs(self._table, ranked, filtering, running)

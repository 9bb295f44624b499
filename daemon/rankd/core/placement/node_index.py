"""The best node for a demand, found without checking all nodes: the hot path of jobs on one node.

The nodes are laid out once in their order, in blocks. Each demand has a `Finder`, which goes along that layout. It
skips blocks whose largest free amounts are too small. A node on which a job was placed moves from the layout to a short
list of changed nodes, which is always compared as a whole. When this list is full, all nodes are laid out again. Room
only shrinks during a cycle, so a node that a finder has passed never fits again.

Exact: the result is always the first node by (key, name) of all that fit. The cost of a placement is a comparison of
the changed nodes, its share of a new layout, and sometimes a comparison of a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rankd.core.placement.node_set import Demand, rows_fitting
from rankd.core.placement.node_table import NodeTable, Share
from rankd.core.placement.timeline import Kept
from rankd.core.ranking.columns import BoolArray, IntArray

BLOCK = 128
"""The number of nodes in a block. Their free amounts are compared at once."""

_ONLY = np.zeros(1, dtype=np.int64)
"""The row of the only node."""

CHANGED_AT_LEAST = 192
"""The list of changed nodes has at least this size; it is larger if there are many nodes. When full, it is emptied."""


class NodeIndex:
    """The layout, and the nodes changed since. Call its :meth:`occupy` and :meth:`occupy_all`, not the table's."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.n_layouts = 0
        n_nodes, n_columns = table.free.shape
        room = max(CHANGED_AT_LEAST, n_nodes // 64)
        self.changed_free = np.empty((room, n_columns), dtype=np.int64, order="F")
        self.changed_keys = np.empty(room)
        self.changed_rows = np.empty(room, dtype=np.int64)
        self.lay_out()

    def lay_out(self) -> None:
        """Lay out all nodes that are up, in their order. Empty the list of changed nodes."""
        table = self.table
        rows = np.flatnonzero(table.up)
        self.rows = rows[np.argsort(table.keys[rows], kind="stable")]
        self.free = np.asfortranarray(table.free[self.rows])
        starts = np.arange(0, len(rows), BLOCK)
        self.largest = np.asfortranarray(np.maximum.reduceat(self.free, starts)) if len(rows) else self.free
        self.slots: dict[int, int] = {}
        self.is_changed = np.zeros(len(table.nodes), dtype=bool)
        self.n_layouts += 1

    def occupy(self, row: int, share: Share) -> None:
        """Take a share of this node."""
        table = self.table
        table.occupy(row, share)
        slot = self.slots.get(row)
        if slot is None:
            slot = len(self.slots)
            if slot == len(self.changed_rows):
                self.lay_out()
                return
            self.slots[row] = slot
            self.changed_rows[slot] = row
            self.is_changed[row] = True
        self.changed_free[slot] = table.free[row]
        self.changed_keys[slot] = table.keys[row]

    def occupy_all(self, rows: IntArray, shares: Sequence[Share]) -> None:
        """Take one share of each of these nodes, int64 (n,), without duplicates."""
        table, slots, listed = self.table, self.slots, rows.tolist()
        table.occupy_all(rows, shares)
        if len(slots) + sum(row not in slots for row in listed) > len(self.changed_rows):
            self.lay_out()
            return
        places = [slots.setdefault(row, len(slots)) for row in listed]
        self.changed_rows[places] = rows
        self.changed_free[places], self.changed_keys[places] = table.free[rows], table.keys[rows]
        self.is_changed[rows] = True


class Reservations(Protocol):
    """The reservations so far. :attr:`version` changes with each new one."""

    @property
    def version(self) -> int:
        """The number of reservations."""

    def kept(self, limit_s: float) -> Kept | None:
        """The room that they leave to a job that starts now and runs for ``limit_s``; None means all room."""


class OnlyNode:
    """The same as a :class:`Finder` and its index, for a partition with one node. It needs no layout."""

    def __init__(
        self, table: NodeTable, demand: Demand, reservations: Reservations | None = None, limit_s: float = math.inf
    ) -> None:
        self._table = table
        self._demand = demand
        self._reservations = reservations
        self._limit_s = limit_s

    def best(self) -> int | None:
        """The node, if it fits."""
        free, demand = self._table.free[0].tolist(), self._demand
        if any(free[column] < amount for column, amount in demand.pairs) or not demand.able[0]:
            return None
        kept = None if self._reservations is None else self._reservations.kept(self._limit_s)
        return 0 if kept is None or self._allows(kept) else None

    def _allows(self, kept: Kept) -> bool:
        if self._demand.of_any_model:
            return bool(kept.allows(_ONLY, self._demand)[0])
        free = kept.free[0].tolist()
        return all(free[column] >= amount for column, amount in self._demand.pairs)


class Finder:
    """Finds the nodes that a demand fits, the best first, for jobs with this time limit.

    ``reservations`` None means that there are none. Reservations are checked only for nodes that fit.
    """

    def __init__(
        self, index: NodeIndex, demand: Demand, reservations: Reservations | None = None, limit_s: float = math.inf
    ) -> None:
        self._index = index
        self._demand = demand
        self._reservations = reservations
        self._limit_s = limit_s
        self._version = 0
        self._all_able = demand.n_able == int(np.count_nonzero(index.table.up))
        self._n_layout = 0
        self._is_exhausted = False

    def _begin(self) -> None:
        """Begin at the front of the present layout."""
        index = self._index
        self._n_layout = index.n_layouts
        self._fitting: list[int] = []
        self._blocks: list[int] = np.flatnonzero(rows_fitting(index.largest, self._demand)).tolist()
        self._blocks.reverse()
        self._step = 1

    def best(self) -> int | None:
        """The first node that fits, by key and name. None means that no node fits for the rest of the cycle."""
        row = None if self._is_exhausted else self._best()
        self._is_exhausted = row is None
        return row

    def _best(self) -> int | None:
        if self._n_layout != self._index.n_layouts:
            self._begin()
        if self._reservations is not None and self._version != self._reservations.version:
            self._version = self._reservations.version
            rows = np.array(self._fitting, dtype=np.int64)
            self._fitting = rows[self._allowed(rows)].tolist()
        laid = self._first_laid()
        return self._first_changed(laid) if self._index.slots else laid

    def _allowed(self, rows: IntArray) -> BoolArray:
        """Which rows have room that is not kept for reservations, bool (n,)."""
        kept = self._reservations.kept(self._limit_s) if self._reservations is not None and len(rows) else None
        return np.ones(len(rows), dtype=bool) if kept is None else kept.allows(rows, self._demand)

    def _first_laid(self) -> int | None:
        """The first node of the layout that fits and has not changed."""
        changed, fitting = self._index.slots, self._fitting
        while True:
            while fitting:
                if fitting[-1] not in changed:
                    return fitting[-1]
                fitting.pop()
            if not self._blocks:
                return None
            fitting = self._fitting = self._fitting_in_next()

    def _fitting_in_next(self) -> list[int]:
        """The unchanged rows that fit in the next blocks, in reverse order.

        If there are none, the next call takes twice the number of blocks.
        """
        index, first = self._index, self._blocks[-1]
        last = first
        while self._blocks and self._blocks[-1] < first + self._step:
            last = self._blocks.pop()
        of = slice(first * BLOCK, (last + 1) * BLOCK)
        rows = index.rows[of]
        fits = rows_fitting(index.free[of], self._demand)
        if index.slots:
            fits &= ~index.is_changed[rows]
        if not self._all_able:
            fits &= self._demand.able[rows]
        rows = rows[fits]
        if self._reservations is not None:
            rows = rows[self._allowed(rows)]
        self._step = 1 if len(rows) else self._step * 2
        fitting: list[int] = rows[::-1].tolist()
        return fitting

    def _first_changed(self, laid: int | None) -> int | None:
        """The first of the changed nodes that fit, or ``laid`` (the node from the layout) if that is before it."""
        index, demand = self._index, self._demand
        n_changed = len(index.slots)
        fits = rows_fitting(index.changed_free[:n_changed], demand)
        if not self._all_able:
            fits &= demand.able[index.changed_rows[:n_changed]]
        slots = fits.nonzero()[0]
        if self._reservations is not None:
            slots = slots[self._allowed(index.changed_rows[slots])]
        if not len(slots):
            return laid
        keys, rows = index.changed_keys[slots], index.changed_rows[slots]
        least = keys[keys.argmin()]
        tied = rows[keys == least]
        row = int(tied[0] if len(tied) == 1 else tied.min())
        if laid is None or (least, row) < (index.table.keys[laid], laid):
            return row
        return laid

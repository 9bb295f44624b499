"""The best node for a demand, found without looking at all nodes: the hot path of jobs on one node.

The nodes are laid out once in their order, in blocks. Each demand has a `Finder`, which goes along that layout;
blocks whose largest free amounts are too small are stepped over as one. A node that something was placed on leaves
the layout for a short list of changed nodes, which is looked at as a whole; when that has grown long, all nodes are
laid out anew. Room only shrinks during a cycle, so what a finder has passed never fits again.

Exact: the answer is always the first node by (key, name) of all that fit. Cost per placement: a comparison of the
changed nodes, the share of a new layout, and for a finder now and then a comparison of a block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankd.core.placement.node_set import Demand, rows_fitting
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.timeline import Kept

BLOCK = 128
"""Nodes whose free amounts are compared at once."""

CHANGED_AT_LEAST = 192
"""So many changed nodes are kept apart before all are laid out again; more where there are many nodes."""


class NodeIndex:
    """The layout, and what has changed since; :meth:`take` instead of the table's."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.n_layouts = 0
        n_nodes, n_columns = table.free.shape
        room = max(CHANGED_AT_LEAST, n_nodes // 64)
        self.changed_free = np.empty((room, n_columns), dtype=np.int64)
        self.changed_keys = np.empty(room)
        self.changed_rows = np.empty(room, dtype=np.int64)
        self.lay_out()

    def lay_out(self) -> None:
        """All nodes that are up in their order; nothing has changed."""
        table = self.table
        rows = np.flatnonzero(table.up)
        self.rows = rows[np.argsort(table.keys[rows], kind="stable")]
        self.free = table.free[self.rows]
        starts = np.arange(0, len(rows), BLOCK)
        self.largest = np.maximum.reduceat(self.free, starts) if len(rows) else self.free
        self.slots: dict[int, int] = {}
        self.is_changed = np.zeros(len(table.nodes), dtype=bool)
        self.n_layouts += 1

    def take(self, row: int, demand: Demand) -> None:
        """Use up what the demand asks for on this node."""
        table = self.table
        table.take(row, demand)
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


class Finder:
    """The nodes that a demand fits, best first. ``kept`` says what reservations leave to it."""

    def __init__(self, index: NodeIndex, demand: Demand, kept: Callable[[], Kept | None] | None = None) -> None:
        self._index = index
        self._demand = demand
        self._ask = kept
        self._kept: Kept | None = None
        self._all_able = demand.n_able == int(np.count_nonzero(index.table.up))
        self._n_layout = 0

    def _begin(self) -> None:
        """Go along the present layout from its front."""
        index = self._index
        self._n_layout = index.n_layouts
        self._fitting: list[int] = []
        self._blocks: list[int] = np.flatnonzero(rows_fitting(index.largest, self._demand)).tolist()
        self._blocks.reverse()

    def best(self) -> int | None:
        """The first node by key and name; None: nothing fits, now and for the rest of the cycle."""
        if self._n_layout != self._index.n_layouts:
            self._begin()
        if self._ask is not None:
            self._take_kept(self._ask())
        laid = self._first_laid()
        return self._first_changed(laid) if self._index.slots else laid

    def _take_kept(self, kept: Kept | None) -> None:
        """Drop what was reserved since."""
        before, self._kept = self._kept, kept
        if kept is not None and self._fitting and (before is None or before.version != kept.version):
            rows = np.array(self._fitting)
            self._fitting = rows[kept.allows(rows, self._demand)].tolist()

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
            fitting = self._fitting = self._fitting_in(self._blocks.pop())

    def _fitting_in(self, block: int) -> list[int]:
        """Rows of a block that fit and have not changed, the first last."""
        index, of = self._index, slice(block * BLOCK, (block + 1) * BLOCK)
        rows = index.rows[of]
        fits = rows_fitting(index.free[of], self._demand)
        fits &= ~index.is_changed[rows]
        if not self._all_able:
            fits &= self._demand.able[rows]
        if self._kept is not None:
            fits &= self._kept.allows(rows, self._demand)
        fitting: list[int] = rows[fits][::-1].tolist()
        return fitting

    def _first_changed(self, laid: int | None) -> int | None:
        """The first of the changed nodes that fit, or the one from the layout if that goes before it."""
        index, demand = self._index, self._demand
        n_changed = len(index.slots)
        rows, keys = index.changed_rows[:n_changed], index.changed_keys[:n_changed]
        fits = rows_fitting(index.changed_free[:n_changed], demand)
        if not self._all_able:
            fits &= demand.able[rows]
        if self._kept is not None:
            fits &= self._kept.allows(rows, demand)
        slots = np.flatnonzero(fits)
        if not len(slots):
            return laid
        least = keys[slots].min()
        row = int(rows[slots[keys[slots] == least]].min())
        if laid is None or (least, row) < (index.table.keys[laid], laid):
            return row
        return laid

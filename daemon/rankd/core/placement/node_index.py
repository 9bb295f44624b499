"""The best node for a demand, found without looking at all nodes: the hot path of jobs on one node.

The nodes are laid out once in their order, in blocks. Each demand has a `Finder`, which goes along that layout;
blocks whose largest free amounts are too small are stepped over as one. A node that something was placed on leaves
the layout for a short list of changed nodes, which is looked at as a whole; when that has grown long, all nodes are
laid out anew. Room only shrinks during a cycle, so what a finder has passed never fits again.

Exact: the answer is always the first node by (key, name) of all that fit. Cost per placement: a comparison of the
changed nodes, the share of a new layout, and for a finder now and then a comparison of a block.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from rankd.core.placement.node_set import Demand, rows_fitting
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.timeline import Kept
from rankd.core.ranking.columns import BoolArray, IntArray

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
        self.changed_free = np.empty((room, n_columns), dtype=np.int64, order="F")
        self.changed_keys = np.empty(room)
        self.changed_rows = np.empty(room, dtype=np.int64)
        self.lay_out()

    def lay_out(self) -> None:
        """All nodes that are up in their order; nothing has changed."""
        table = self.table
        rows = np.flatnonzero(table.up)
        self.rows = rows[np.argsort(table.keys[rows], kind="stable")]
        self.free = np.asfortranarray(table.free[self.rows])
        starts = np.arange(0, len(rows), BLOCK)
        self.largest = np.asfortranarray(np.maximum.reduceat(self.free, starts)) if len(rows) else self.free
        self.slots: dict[int, int] = {}
        self.is_changed = np.zeros(len(table.nodes), dtype=bool)
        self.n_layouts += 1

    def occupy(self, row: int, demand: Demand) -> None:
        """Use up what the demand asks for on this node."""
        table = self.table
        table.occupy(row, demand)
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

    def occupy_all(self, rows: IntArray, demand: Demand) -> None:
        """The same on several nodes, int64 (n,), none of them twice."""
        table, slots, listed = self.table, self.slots, rows.tolist()
        table.occupy_all(rows, demand)
        if len(slots) + sum(row not in slots for row in listed) > len(self.changed_rows):
            self.lay_out()
            return
        places = [slots.setdefault(row, len(slots)) for row in listed]
        self.changed_rows[places] = rows
        self.changed_free[places], self.changed_keys[places] = table.free[rows], table.keys[rows]
        self.is_changed[rows] = True


class Reservations(Protocol):
    """What is kept of nodes for others, as it becomes; :attr:`version` is another one after each reservation."""

    @property
    def version(self) -> int:
        """How many reservations there are."""

    def kept(self, limit_s: float) -> Kept | None:
        """What they leave to a job that starts now, for so long; None: everything."""


class Finder:
    """The nodes that a demand fits, best first, for jobs of a time limit among ``reservations`` (None: there are none).

    What is reserved is asked for where something fits, and not before.
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
        """Go along the present layout from its front."""
        index = self._index
        self._n_layout = index.n_layouts
        self._fitting: list[int] = []
        self._blocks: list[int] = np.flatnonzero(rows_fitting(index.largest, self._demand)).tolist()
        self._blocks.reverse()
        self._step = 1

    def best(self) -> int | None:
        """The first node by key and name; None: nothing fits, now and for the rest of the cycle."""
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
        """Which rows are not kept for others."""
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
        """Rows of the next blocks that fit and have not changed, the first last; more blocks after each vain look."""
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
        """The first of the changed nodes that fit, or the one from the layout if that goes before it."""
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

"""The best node for a demand, found without looking at all nodes: the hot path of jobs on one node.

The nodes are laid out once in their order. A demand has a `Finder`, which goes along that layout, block by block;
blocks whose largest free amounts are too small are stepped over. A node that something was placed on leaves the
layout: from then on it is in the heaps of the finders that it still fits, by its new key. Room only shrinks during
a cycle, so what a finder has passed never fits again. Once many nodes have left, everything is laid out anew.

Exact: the answer is always the first node by (key, name) of all that fit. Amortised cost per placement: a few heap
operations and one comparison of a block; memory: what the finders have looked at.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rankd.core.placement.node_table import Demand, NodeTable
from rankd.core.ranking.columns import BoolArray

BLOCK = 256
"""Nodes whose free amounts are compared at once."""

LEFT_AT_MOST = 2048
"""So many changed nodes are kept apart before all are laid out again."""

_FEW = 6
"""Changes that are looked at one by one rather than as arrays."""

Entry = tuple[float, int, int]
"""A changed node: its key, its row, and the change that gave it that key."""

Bound = tuple[float, float]
"""A key and a row; in the order of nodes."""

_LOWEST: Bound = (-math.inf, -1)
_HIGHEST: Bound = (math.inf, math.inf)


class NodeIndex:
    """The layout, and what has changed since; :meth:`take` instead of the table's."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.n_layouts = 0
        self.lay_out()

    def lay_out(self) -> None:
        """All nodes that are up in their order; nothing has changed."""
        table = self.table
        rows = np.flatnonzero(table.up)
        self.rows = rows[np.argsort(table.keys[rows], kind="stable")]
        self.keys = table.keys[self.rows]
        self.free = table.free[self.rows]
        starts = np.arange(0, len(rows), BLOCK)
        self.largest = np.maximum.reduceat(self.free, starts) if len(rows) else self.free
        self.places = np.full(len(table.nodes), -1)
        self.places[self.rows] = np.arange(len(rows))
        self.left = np.zeros(len(rows), dtype=bool)
        self.amounts: dict[int, list[int]] = {}
        self.changes: dict[int, tuple[float, int]] = {}
        self.log: list[int] = []
        self.n_layouts += 1

    def take(self, row: int, demand: Demand) -> None:
        """Use up what the demand asks for on this node."""
        table = self.table
        table.take(row, demand)
        if row not in self.amounts:
            self.left[self.places[row]] = True
        self.amounts[row] = table.free[row].tolist()
        self.changes[row] = (float(table.keys[row]), len(self.log))
        self.log.append(row)
        if len(self.amounts) > LEFT_AT_MOST:
            self.lay_out()


class Finder:
    """The nodes that a demand fits, best first. ``refused`` says of a node for ever that it is not to be used."""

    def __init__(self, index: NodeIndex, demand: Demand, refused: Callable[[int], bool] | None = None) -> None:
        self._index = index
        self._demand = demand
        self._refused = refused
        self._out: set[int] = set()
        self._n_layout = 0

    def _begin(self) -> None:
        index = self._index
        self._n_layout = index.n_layouts
        self._heap: list[Entry] = []
        self._logged = len(index.log)
        self._block = 0
        self._bound: Bound = _LOWEST  # changed nodes up to here are in the heap
        self._fitting: list[int] = []
        self._blocks = np.flatnonzero((index.largest >= self._demand.least).all(axis=1)).tolist()
        self._blocks.reverse()
        self._next_block()

    def best(self) -> int | None:
        """The first node by key and name; None: nothing fits, now and for the rest of the cycle."""
        if self._n_layout != self._index.n_layouts:
            self._begin()
        elif self._logged != len(self._index.log):
            self._catch_up()
        while True:
            changed, laid = self._first_changed(), self._first_laid()
            if changed is None and laid is None:
                if self._bound == _HIGHEST:
                    return None
                self._next_block()
                continue
            row = self._better(changed, laid)
            if self._refused is None or (row not in self._out and not self._refused(row)):
                return row
            self._out.add(row)
            self._drop(row, changed)

    def _better(self, changed: Entry | None, laid: int | None) -> int:
        if changed is None or laid is None:
            return int(self._index.rows[laid]) if laid is not None else changed[1]  # type: ignore[index]
        row = int(self._index.rows[laid])
        return changed[1] if changed[:2] < (float(self._index.keys[laid]), row) else row

    def _drop(self, row: int, changed: Entry | None) -> None:
        if changed is not None and changed[1] == row:
            heapq.heappop(self._heap)
        else:
            self._fitting.pop()

    def _first_changed(self) -> Entry | None:
        """The top of the heap, outdated entries dropped."""
        heap, changes = self._heap, self._index.changes
        while heap:
            top = heap[0]
            if changes[top[1]][1] == top[2]:
                return top
            heapq.heappop(heap)
        return None

    def _first_laid(self) -> int | None:
        """The place of the first fitting node of the present block that has not changed."""
        fitting, left = self._fitting, self._index.left
        while fitting:
            if not left[fitting[-1]]:
                return fitting[-1]
            fitting.pop()
        return None

    def _next_block(self) -> None:
        """The next block with a node that fits, and the changed nodes up to its last key."""
        index, least = self._index, self._demand.least
        bound = _HIGHEST
        while self._blocks and not self._fitting:
            start = self._blocks.pop() * BLOCK
            end = min(start + BLOCK, len(index.rows))
            fits = (index.free[start:end] >= least).all(axis=1) & self._demand.able[index.rows[start:end]]
            fits &= ~index.left[start:end]
            self._fitting = (np.flatnonzero(fits)[::-1] + start).tolist()
            bound = (float(index.keys[end - 1]), int(index.rows[end - 1]))
        if not self._fitting:
            bound = _HIGHEST
        self._pull(self._bound, bound)
        self._bound = bound

    def _pull(self, above: Bound, upto: Bound) -> None:
        """Put changed nodes behind one bound and up to another into the heap."""
        changes = self._index.changes
        if not changes:
            return
        rows = np.fromiter(changes, dtype=np.intp, count=len(changes))
        wanted = self._within(rows, upto)
        if above != _LOWEST:
            wanted &= ~self._within(rows, above)
        self._push(rows[wanted].tolist())

    def _within(self, rows: NDArray[np.intp], bound: Bound) -> BoolArray:
        """Which of these fit and are not behind the bound."""
        table, demand = self._index.table, self._demand
        keys = table.keys[rows]
        before = (keys < bound[0]) | ((keys == bound[0]) & (rows <= bound[1]))
        fits: BoolArray = before & (table.free[rows] >= demand.least).all(axis=1) & demand.able[rows]
        return fits

    def _push(self, rows: list[int]) -> None:
        changes = self._index.changes
        for row in rows:
            key, change = changes[row]
            heapq.heappush(self._heap, (key, row, change))

    def _catch_up(self) -> None:
        """Nodes that changed since this finder was last asked."""
        index, demand = self._index, self._demand
        new, self._logged = index.log[self._logged :], len(index.log)
        if len(new) > _FEW:
            rows = np.unique(np.array(new))
            self._push(rows[self._within(rows, self._bound)].tolist())
            return
        for row in new:
            key, change = index.changes[row]
            amounts = index.amounts[row]
            if (key, row) <= self._bound and all(amounts[c] >= n for c, n in demand.pairs) and demand.able[row]:
                heapq.heappush(self._heap, (key, row, change))

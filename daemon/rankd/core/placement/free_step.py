"""The free amounts of each node over time: one step function per node.

The steps of all nodes are columns. A node's steps are adjacent and in the order of time. When a node changes, its new
steps are appended, and its old ones are marked as dead. Dead steps are dropped when the columns are full.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from rankd.core.ranking.columns import FloatArray, IntArray

_DEAD = np.iinfo(np.int64).min
"""The number of free job slots in a dead step."""


class FreeSteps:
    """Columns of steps. A node's first step begins now, and its last one never ends.

    :attr:`rows` int64 (n,), :attr:`begins` and :attr:`ends` float64 (n,) in UTC seconds, :attr:`free` int64
    (n_types + 1, n). A dead step has a negative number of free job slots.
    """

    def __init__(self, n_nodes: int, rows: IntArray, times: FloatArray, amounts: IntArray) -> None:
        """Build the steps of ``n_nodes`` nodes from changes.

        Args:
            n_nodes: the number of nodes.
            rows: int64 (n,), the node of each change.
            times: float64 (n,), the time of each change, UTC seconds.
            amounts: int64 (n, n_types + 1), the added amounts. A node's first change has the amounts free on it now.
        """
        self._n = 0
        self._firsts = np.zeros(n_nodes, dtype=np.int64)
        self._counts = np.zeros(n_nodes, dtype=np.int64)
        self._make_room(amounts.shape[1], 2 * len(rows))
        self._append(rows, times, amounts)

    def _make_room(self, n_columns: int, size: int) -> None:
        self._rows = np.empty(size, dtype=np.int64)
        self._begins, self._ends = np.empty(size), np.empty(size)
        self._free = np.empty((n_columns, size), dtype=np.int64)

    @property
    def rows(self) -> IntArray:
        """The node of each step, int64 (n,)."""
        return self._rows[: self._n]

    @property
    def begins(self) -> FloatArray:
        """When each step begins, UTC seconds."""
        return self._begins[: self._n]

    @property
    def ends(self) -> FloatArray:
        """When each step ends, UTC seconds; infinite for a node's last one."""
        return self._ends[: self._n]

    @property
    def free(self) -> IntArray:
        """The free amounts in each step, int64 (n_types + 1, n)."""
        return self._free[:, : self._n]

    def change(self, rows: IntArray, times: FloatArray, amounts: IntArray) -> None:
        """Add ``amounts`` (n, n_types + 1) to the free amounts of these nodes from ``times`` on.

        All must have steps.
        """
        touched = np.unique(rows)
        old = self._places(touched)
        before = self._free[:, old].T
        steps = before.copy()
        steps[1:] -= before[:-1]
        firsts = np.cumsum(self._counts[touched]) - self._counts[touched]
        steps[firsts] = before[firsts]
        self._free[-1, old] = _DEAD
        self._append(
            np.concatenate([self._rows[old], rows]),
            np.concatenate([self._begins[old], times]),
            np.concatenate([steps, amounts]),
        )

    def _places(self, nodes: IntArray) -> IntArray:
        """The positions of these nodes' steps, node by node."""
        counts = self._counts[nodes]
        ends = np.cumsum(counts)
        places: IntArray = np.repeat(self._firsts[nodes] - ends + counts, counts) + np.arange(counts.sum())
        return places

    def _append(self, rows: IntArray, times: FloatArray, amounts: IntArray) -> None:
        """Append the running sums of each node's changes. Of several changes at one instant, the last sum counts."""
        if not len(rows):
            return
        order = np.lexsort((times, rows))
        rows, times, sums = rows[order], times[order], np.cumsum(amounts[order], axis=0)
        is_last = np.ones(len(rows), dtype=bool)
        np.not_equal(rows[1:], rows[:-1], out=is_last[:-1])
        lasts = is_last.nonzero()[0]
        if len(lasts) > 1:
            sums[lasts[0] + 1 :] -= np.repeat(sums[lasts[:-1]], lasts[1:] - lasts[:-1], axis=0)
        is_kept = is_last.copy()
        is_kept[:-1] |= times[1:] > times[:-1]
        rows, times, is_last = rows[is_kept], times[is_kept], is_last[is_kept]
        ends = np.empty(len(times))
        ends[:-1] = times[1:]
        ends[is_last] = np.inf
        self._put(rows, times, ends, sums[is_kept].T)

    def _put(self, rows: IntArray, begins: FloatArray, ends: FloatArray, free: IntArray) -> None:
        if self._n + len(rows) > len(self._rows):
            self._drop_dead(len(rows))
        at, self._n = self._n, self._n + len(rows)
        self._rows[at : self._n], self._begins[at : self._n], self._ends[at : self._n] = rows, begins, ends
        self._free[:, at : self._n] = free
        lasts = (ends == np.inf).nonzero()[0]
        firsts = np.zeros_like(lasts)
        firsts[1:] = lasts[:-1] + 1
        nodes = rows[lasts]
        self._firsts[nodes] = firsts + at
        self._counts[nodes] = lasts - firsts + 1

    def _drop_dead(self, coming: int) -> None:
        """Move the living steps to the front of new columns that have twice the room."""
        alive = np.flatnonzero(self.free[-1] != _DEAD)
        rows, begins, ends, free = self._rows[alive], self._begins[alive], self._ends[alive], self._free[:, alive]
        self._make_room(len(free), 2 * (len(alive) + coming))
        self._n = 0
        self._put(rows, begins, ends, free)

    def least(self, nodes: IntArray, until: float) -> IntArray:
        """The smallest free amounts of each node, in steps that begin up to ``until``, int64 (n, n_types + 1)."""
        places = self._places(nodes)
        places = places[self._begins[places] <= until]
        firsts = np.flatnonzero(np.diff(self._rows[places], prepend=-1))
        found: IntArray = np.minimum.reduceat(self._free[:, places], firsts, axis=1).T
        return found

    def falls_short(self, node: int, amounts: Iterable[tuple[int, int]]) -> float:
        """The first instant at which the node has less free than any of ``amounts``, (column, amount).

        Returns infinity if there is none.
        """
        first = int(self._firsts[node])
        begins = self._begins[first : first + int(self._counts[node])]
        short = len(begins)
        for column, amount in amounts:
            free = self._free[column, first : first + short].tolist()
            short = next((place for place, left in enumerate(free) if left < amount), short)
        return float(begins[short]) if short < len(begins) else math.inf

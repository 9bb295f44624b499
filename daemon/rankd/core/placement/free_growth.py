"""The free amounts of each node over time while nothing is reserved: they only grow, as running jobs end.

So each node fits a demand from one instant on, for ever. This is all that the first reservation of a cycle needs; only
further ones need the steps of :mod:`rankd.core.placement.free_step`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rankd.core.placement.free_step import FreeSteps
from rankd.core.placement.node_set import Demand, rows_fitting
from rankd.core.placement.node_table import NodeTable
from rankd.core.ranking.columns import FloatArray, IntArray

Start = tuple[int, float, IntArray]
"""A node on which a job has started in this cycle, when the job ends, and what it takes there."""


class Windows(NamedTuple):
    """The times during which a demand fits a node for long enough: from ``begins`` to ``ends``, float64 (n,) each.

    ``rows`` int64 (n,): the nodes. A node may have several windows.
    """

    rows: IntArray
    begins: FloatArray
    ends: FloatArray
    limit_s: float

    def instants(self, least: int) -> FloatArray:
        """The instants at which the number of nodes grows and reaches ``least`` or more, ascending."""
        if len(self.begins) == 1:
            return self.begins[least - 1 :]
        candidates = np.unique(self.begins)
        begun = np.searchsorted(np.sort(self.begins), candidates, side="right")
        over = np.searchsorted(np.sort(self.ends), candidates + self.limit_s, side="left")
        return candidates[begun - over >= least]

    def at(self, instant: float, keys: FloatArray) -> list[int]:
        """The rows that fit from ``instant`` on for the whole limit.

        Rows that get room latest are first; equal ones are in the nodes' order.
        """
        if len(self.begins) == 1:
            is_long = self.begins[0] <= instant and instant + self.limit_s <= self.ends[0]
            only: list[int] = self.rows.tolist() if is_long else []
            return only
        fits = (self.begins <= instant) & (instant + self.limit_s <= self.ends)
        rows = self.rows[fits]
        order: list[int] = rows.tolist()
        if len(order) > 1:
            order = rows[np.lexsort((rows, keys[rows], -self.begins[fits]))].tolist()
        return order


class _Returns(NamedTuple):
    """Amounts that are given back when jobs end: the node and instant of each, and ``amounts`` int64 (n, n_types + 1).

    Sorted by node, then by instant.
    """

    rows: IntArray
    times: FloatArray
    amounts: IntArray


class FreeGrowth:
    """The future of a table's nodes without reservations. ``started``: the starts of this cycle so far.

    ``free`` int64 (n_nodes, n_types + 1): what is free now. Jobs over their time limit count as ending now.
    """

    def __init__(self, table: NodeTable, now: float, started: Sequence[Start]) -> None:
        self.free = table.free.copy(order="K")
        self._table = table
        self._now = now
        self._started = [start for start in started if start[1] < math.inf]

    @cached_property
    def _returns(self) -> _Returns:
        held, started = self._table.held, self._started
        coming = self._table.up[held.rows] & (held.ends_at < math.inf)
        rows, times, amounts = held.rows[coming], np.maximum(held.ends_at[coming], self._now), held.vectors[coming]
        if started:
            rows = np.concatenate([rows, np.array([row for row, _, _ in started], dtype=np.int64)])
            times = np.concatenate([times, np.maximum([ends_at for _, ends_at, _ in started], self._now)])
            amounts = np.concatenate([amounts, np.array([vector for _, _, vector in started])])
        order = np.lexsort((times, rows)) if len(self.free) > 1 else np.argsort(times, kind="stable")
        return _Returns(rows[order], times[order], amounts[order])

    @cached_property
    def _grown(self) -> IntArray:
        """What each node has free after each return, int64 (n, n_types + 1)."""
        rows, _, amounts = self._returns
        sums: IntArray = np.cumsum(amounts, axis=0)
        if len(self.free) == 1:
            return sums + self.free
        firsts = np.flatnonzero(rows[1:] != rows[:-1]) + 1
        if len(firsts):
            counts = np.diff(firsts, append=len(rows))
            sums[firsts[0] :] -= np.repeat(sums[firsts - 1], counts, axis=0)
        return sums + self.free[rows]

    @cached_property
    def _of_only(self) -> tuple[FloatArray, IntArray]:
        """For the only node, which is up: when something returns, ascending, and what is free from then on."""
        held, started = self._table.held, self._started
        times, amounts = np.maximum(held.ends_at, self._now), held.vectors
        if started:
            times = np.concatenate([times, np.maximum([ends_at for _, ends_at, _ in started], self._now)])
            amounts = np.concatenate([amounts, np.array([vector for _, _, vector in started])])
        order = times.argsort(kind="stable")
        return times[order], amounts[order].cumsum(axis=0) + self.free[0]

    def windows(self, demand: Demand, limit_s: float, least: int) -> Windows | None:
        """The times during which the demand fits each node. None if it never fits ``least`` nodes at once."""
        if len(self.free) == 1:
            return self._only_window(demand, limit_s) if least == 1 else None
        rows, times, _ = self._returns
        fits_now = demand.able & rows_fitting(self.free, demand)
        fits = rows_fitting(self._grown, demand) & (demand.able & ~fits_now)[rows]
        places = fits.nonzero()[0]
        is_first = np.ones(len(places), dtype=bool)
        np.not_equal(rows[places[1:]], rows[places[:-1]], out=is_first[1:])
        places, from_now = places[is_first], fits_now.nonzero()[0]
        of = np.concatenate([from_now, rows[places]])
        if len(of) < least:
            return None
        begins = np.concatenate([np.full(len(from_now), self._now), times[places]])
        return Windows(of, begins, np.full(len(of), np.inf), limit_s)

    def _only_window(self, demand: Demand, limit_s: float) -> Windows | None:
        """The same for the only node."""
        free, begin = self.free[0].tolist(), self._now
        if not demand.able[0]:
            return None
        lacking = [(column, amount) for column, amount in demand.pairs if free[column] < amount]
        if lacking:
            times, grown = self._of_only
            first = max(int(grown[:, column].searchsorted(amount)) for column, amount in lacking)
            if first == len(times) or times[first] == math.inf:
                return None
            begin = float(times[first])
        return Windows(np.zeros(1, dtype=np.int64), np.array([begin]), np.array([math.inf]), limit_s)

    def at(self, rows: IntArray, instant: float) -> IntArray:
        """What these nodes have free at an instant, int64 (n, n_types + 1). A new array."""
        if len(self.free) == 1 and self._table.up[0] and instant < math.inf:
            return self._only_at(instant)[np.zeros(len(rows), dtype=np.int64)]
        of, times, _ = self._returns
        free, is_back = self.free[rows], times <= instant
        if is_back.any():
            n_back = np.bincount(of[is_back], minlength=len(self.free))[rows]
            some = n_back > 0
            free[some] = self._grown[(of.searchsorted(rows) + n_back - 1)[some]]
        return free

    def _only_at(self, instant: float) -> IntArray:
        """What the only node has free at an instant, int64 (1, n_types + 1)."""
        times, grown = self._of_only
        n_back = int(times.searchsorted(instant, side="right"))
        return grown[n_back - 1 : n_back] if n_back else self.free

    def steps(self) -> FreeSteps:
        """The same as steps, to which reservations and starts can be added."""
        up = np.flatnonzero(self._table.up)
        rows, times, amounts = self._returns
        return FreeSteps(
            len(self._table.nodes),
            np.concatenate([up, rows]),
            np.concatenate([np.full(len(up), self._now), times]),
            np.concatenate([self.free[up], amounts]),
        )

"""What is free of each node from when on: running jobs' ends, this cycle's starts, and reservations.

A node's free amounts are a step function of time: steps as columns, in the order (node, time). A demand fits a node
from the beginning of a run of steps that each have room, to its end; where that lasts for the job's whole limit,
the node can be reserved. Built when the first reservation is to be made; all instants are UTC seconds.

Source: reservations of backfilling schedulers (EASY, Lifka 1995, and conservative, Mu'alem and Feitelson 2001), with
the nodes of a reservation named and held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.placement.node_table import Demand, NodeTable
from rankd.core.ranking.columns import FloatArray, IntArray

_Event = tuple[int, float, IntArray]
"""A node's row, an instant, and what is added to its free amounts then."""


class _Steps(NamedTuple):
    """Steps (n,): rows, when each begins and ends, and free amounts (n, n_types + 1)."""

    rows: IntArray
    begins: FloatArray
    ends: FloatArray
    free: IntArray


class Windows(NamedTuple):
    """When a demand fits a node, longest runs first begun: ``begins`` to ``ends`` float64 (n,), ``rows``."""

    rows: IntArray
    begins: FloatArray
    ends: FloatArray
    limit_s: float

    def instants(self, least: int) -> FloatArray:
        """The instants at which the number of nodes grows and reaches ``least`` or more, ascending."""
        candidates = np.unique(self.begins)
        begun = np.searchsorted(np.sort(self.begins), candidates, side="right")
        over = np.searchsorted(np.sort(self.ends), candidates + self.limit_s, side="left")
        return candidates[begun - over >= least]

    def at(self, instant: float, keys: FloatArray) -> list[int]:
        """Rows that fit from then on for the whole limit: those that get room last, then in the nodes' order."""
        fits = (self.begins <= instant) & (instant + self.limit_s <= self.ends)
        rows = self.rows[fits]
        order: list[int] = rows[np.lexsort((rows, keys[rows], -self.begins[fits]))].tolist()
        return order


class Timeline:
    """The future of a table's nodes. :meth:`start` and :meth:`reserve` say what the cycle decides."""

    def __init__(self, table: NodeTable, now: float) -> None:
        self._table = table
        self._now = now
        self._is_built = False
        self._begun: list[_Event] = []
        self._new: list[_Event] = []
        self._steps: _Steps | None = None
        self._reserved = np.zeros(len(table.nodes), dtype=bool)
        self._promised: dict[int, int] = {}
        self._has_endless_reservation = False
        self._refusals: dict[tuple[int, float], tuple[int, frozenset[int]]] = {}
        self._version = 0

    @property
    def has_reservations(self) -> bool:
        """Whether anything is reserved."""
        return bool(self._promised)

    def promised_to(self, row: int) -> int | None:
        """The job that a node was reserved for last."""
        return self._promised.get(row)

    def start(self, rows: Sequence[int], demand: Demand, limit_s: float) -> None:
        """A job starts now on these nodes; the table knows it already."""
        for row in rows:
            vector = self._taken(row, demand)
            if not self._is_built:
                self._begun.append((row, self._now + limit_s, vector))
                continue
            self._new.append((row, self._now, -vector))
            self._new.append((row, self._now + limit_s, vector))
            if self._reserved[row]:
                self._version += 1

    def reserve(self, job: int, rows: Sequence[int], demand: Demand, at: float, limit_s: float) -> None:
        """A job is promised these nodes from an instant on, for its limit."""
        for row in rows:
            vector = self._taken(row, demand)
            self._new.append((row, at, -vector))
            self._new.append((row, at + limit_s, vector))
            self._reserved[row] = True
            self._promised[row] = job
        self._has_endless_reservation |= limit_s == math.inf
        self._version += 1

    def _taken(self, row: int, demand: Demand) -> IntArray:
        return self._table.capacity[row] if demand.shape.exclusive else demand.vector

    def ever_free(self) -> IntArray:
        """The most of each column that any node will have free at any time, int64 (n_types + 1,); now included.

        Asked before the first start or reservation.
        """
        table = self._table
        held = table.held
        coming = held.ends_at < math.inf
        free = table.free.copy()
        np.add.at(free, held.rows[coming], held.vectors[coming])
        most: IntArray = free[table.up].max(axis=0, initial=0)
        return most

    def windows(self, demand: Demand, limit_s: float, least: int) -> Windows | None:
        """When the demand fits which nodes for so long; None if never on at ``least`` so many at once."""
        steps = self._up_to_date()
        finally_ = np.flatnonzero(steps.ends == math.inf)
        able = demand.able[steps.rows[finally_]] & (steps.free[finally_] >= demand.least).all(axis=1)
        if np.count_nonzero(able) < least and not self._has_endless_reservation:
            return None  # what is free only grows, but for reservations
        fits = demand.able[steps.rows] & (steps.free >= demand.least).all(axis=1)
        same = steps.rows[1:] == steps.rows[:-1]
        begins = np.flatnonzero(fits & ~np.concatenate([[False], same & fits[:-1]]))
        ends = np.flatnonzero(fits & ~np.concatenate([same & fits[1:], [False]]))
        long_enough = steps.begins[begins] + limit_s <= steps.ends[ends]
        begins, ends = begins[long_enough], ends[long_enough]
        return Windows(steps.rows[begins], steps.begins[begins], steps.ends[ends], limit_s)

    def refused(self, demand: Demand, limit_s: float) -> frozenset[int]:
        """Rows where a job that starts now, for so long, would take room that is reserved."""
        key = (id(demand), limit_s)
        version, rows = self._refusals.get(key, (-1, frozenset()))
        if version != self._version:
            rows = self._refused(demand, limit_s)
            self._refusals[key] = (self._version, rows)
        return rows

    def _refused(self, demand: Demand, limit_s: float) -> frozenset[int]:
        if not self._promised:
            return frozenset()
        steps = self._up_to_date()
        which = np.flatnonzero(self._reserved[steps.rows] & (steps.begins < self._now + limit_s))
        lacks = ~(steps.free[which] >= demand.least).all(axis=1)
        return frozenset(steps.rows[which[lacks]].tolist())

    def _up_to_date(self) -> _Steps:
        """The steps with everything in them that was started and reserved."""
        if not self._is_built:
            self._build()
        if self._new or self._steps is None:
            self._insert()
            self._steps = self._step()
        return self._steps

    def _build(self) -> None:
        """The first steps: what is free now, what running jobs give back; those over their limit give it back now."""
        table, now = self._table, self._now
        held = table.held
        up = np.flatnonzero(table.up)
        coming = table.up[held.rows] & (held.ends_at < math.inf)
        begun = [event for event in self._begun if event[1] < math.inf]
        vectors = np.array([vector for _, _, vector in begun], dtype=np.int64).reshape(len(begun), table.free.shape[1])
        first, ends = np.full(len(up), -math.inf), np.maximum(held.ends_at[coming], now)
        rows = np.concatenate([up, held.rows[coming], np.array([row for row, _, _ in begun], dtype=np.int64)])
        times = np.concatenate([first, ends, np.array([at for _, at, _ in begun], dtype=np.float64)])
        amounts = np.concatenate([table.free[up], held.vectors[coming], vectors])
        order = np.lexsort((times, rows))
        self._rows, self._times, self._amounts = rows[order], np.maximum(times[order], now), amounts[order]
        self._is_built = True

    def _insert(self) -> None:
        new = [event for event in self._new if event[1] < math.inf]
        self._new = []
        if not new:
            return
        rows = np.array([row for row, _, _ in new], dtype=np.int64)
        times = np.array([at for _, at, _ in new])
        amounts = np.array([vector for _, _, vector in new])
        order = np.lexsort((times, rows))
        rows, times, amounts = rows[order], times[order], amounts[order]
        begins, ends = np.searchsorted(self._rows, [rows, rows + 1])
        places = [
            begin + int(np.searchsorted(self._times[begin:end], at, side="right"))
            for begin, end, at in zip(begins.tolist(), ends.tolist(), times.tolist(), strict=True)
        ]
        self._rows = np.insert(self._rows, places, rows)
        self._times = np.insert(self._times, places, times)
        self._amounts = np.insert(self._amounts, places, amounts, axis=0)

    def _step(self) -> _Steps:
        """Sums along each node's events; of several at an instant the last counts."""
        rows, times = self._rows, self._times
        sums = np.cumsum(self._amounts, axis=0)  # may wrap around 64 bits, and back in the difference
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        before = np.repeat(sums[firsts] - self._amounts[firsts], np.diff(firsts, append=len(rows)), axis=0)
        free = sums - before
        ends = np.concatenate([times[1:], [math.inf]]) if len(times) else times
        ends[np.flatnonzero(np.diff(rows, append=-1))] = math.inf
        keep = ends > times
        return _Steps(rows[keep], times[keep], ends[keep], free[keep])

"""The free amounts of each node over time: ends of running jobs, starts of this cycle, and reservations.

A node's free amounts are a step function of time (:mod:`rankd.core.placement.free_step`). A demand fits a node during a
run of steps that all have room. If such a run is as long as the job's time limit, the node can be reserved. Before the
first reservation, free amounts only grow (:mod:`rankd.core.placement.free_growth`), so the steps are built for the
second one. All instants are UTC seconds.

Source: reservations of backfilling schedulers (EASY, Lifka 1995, and conservative, Mu'alem and Feitelson 2001), with
the nodes of a reservation named and held.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.placement.free_growth import FreeGrowth, Start, Windows
from rankd.core.placement.free_step import FreeSteps
from rankd.core.placement.node_set import Demand, rows_fitting
from rankd.core.placement.node_table import NodeTable, Share
from rankd.core.ranking.columns import BoolArray, IntArray

_UNKEPT = np.iinfo(np.int64).max


class Kept(NamedTuple):
    """The room of each node that is not kept for reservations, for jobs up to a time limit.

    ``free`` int64 (n_nodes, n_types + 1).
    """

    free: IntArray
    table: NodeTable

    def allows(self, rows: IntArray, demand: Demand) -> BoolArray:
        """Which of these rows the demand may use. The models that the rule chooses now must not be reserved either."""
        allowed = rows_fitting(self.free[rows], demand)
        if demand.of_any_model:
            for place in np.flatnonzero(allowed & (self.free[rows, -1] < _UNKEPT)).tolist():
                row = rows[place]
                vector = self.table.share(row, demand).vector
                allowed[place] = (vector <= self.free[row])[vector > 0].all()  # a node that has shrunk has less than 0
        return allowed


class _Horizon:
    """The smallest free amounts of each reserved node up to an instant. Later starts and reservations update it.

    ``ends``: while there is one reservation, what each of its nodes has free now and at the instant. In between, free
    amounts only grow, so ``free`` is the smaller of the two.
    """

    __slots__ = ("ends", "free", "n_logged", "until", "version")

    def __init__(self, until: float, free: IntArray, n_logged: int, version: int) -> None:
        self.until = until
        self.free = free
        self.n_logged = n_logged
        self.version = version
        self.ends: dict[int, tuple[IntArray, IntArray]] = {}


class Timeline:
    """The future of a table's nodes. The cycle reports its decisions with :meth:`start` and :meth:`reserve`."""

    def __init__(self, table: NodeTable, now: float) -> None:
        self._table = table
        self._now = now
        self._begun: list[Start] = []
        """The starts before the first reservation."""
        self._growth: FreeGrowth | None = None
        """What is free over time without reservations, and without starts after the first of them."""
        self._new: list[tuple[int, float, IntArray]] = []
        self._taken_first: IntArray | None = None
        """What the first reservation takes of its nodes, by ascending row, while it is the only one."""
        self._steps: FreeSteps | None = None
        self._reserved = np.zeros(len(table.nodes), dtype=bool)
        self._promised: dict[int, dict[float, int]] = {}
        self._has_endless_reservation = False
        self._made: list[tuple[float, IntArray]] = []
        self._starts_at: list[float] = []
        self._horizons: dict[float, _Horizon] = {}
        self._log: list[tuple[int, float, IntArray]] = []

    @property
    def version(self) -> int:
        """The number of reservations."""
        return len(self._made)

    def delayed(self, row: int, demand: Demand, limit_s: float) -> tuple[int, float] | None:
        """For a node that is kept from the demand: the first job that the demand would delay, and its start."""
        promised = self._promised.get(row, {})
        begun = [at for at in promised if at < self._now + limit_s]  # free amounts only fall where one begins
        if len(begun) > 1:
            vector = self._table.share(row, demand).vector if demand.of_any_model else demand.vector
            pairs = [(column, amount) for column, amount in enumerate(vector.tolist()) if amount > 0]
            begun = [self._up_to_date().falls_short(row, pairs)]
        return (promised[begun[0]], begun[0]) if begun else None

    def start(self, rows: Sequence[int], shares: Sequence[Share], limit_s: float) -> None:
        """A job starts now on these nodes. The table has been updated before."""
        ends_at = self._now + limit_s
        for row, (vector, _) in zip(rows, shares, strict=True):
            if not self._made:
                self._begun.append((row, ends_at, vector))
                self._growth = None
                continue
            self._add(row, self._now, ends_at, vector)
            if self._reserved[row]:
                self._log.append((row, ends_at, vector))

    def reserve(self, job: int, rows: Sequence[int], demand: Demand, at: float, limit_s: float) -> None:
        """Reserve these nodes for a job, from ``at`` on for its time limit.

        Of devices without a named model, only the sum is reserved. They are chosen when the job starts.
        """
        self._growing()
        for row in rows:
            self._add(row, at, at + limit_s, self._taken(row, demand))
            self._reserved[row] = True
            self._promised.setdefault(row, {})[at] = job
        self._has_endless_reservation |= limit_s == math.inf
        self._made.append((at, np.array(rows)))
        is_first = len(self._made) == 1
        self._taken_first = np.array([self._taken(row, demand) for row in sorted(rows)]) if is_first else None
        self._starts_at = sorted({*self._starts_at, at})

    def _taken(self, row: int, demand: Demand) -> IntArray:
        return self._table.whole[row] if demand.shape.exclusive else demand.vector

    def _add(self, row: int, begins: float, ends: float, vector: IntArray) -> None:
        self._new.append((row, begins, -vector))
        if ends < math.inf:
            self._new.append((row, ends, vector))

    def ever_free(self) -> IntArray:
        """For each column, the largest amount that any node has free now or later, int64 (n_types + 1,).

        Must be called before the first start or reservation.
        """
        table = self._table
        held = table.held
        coming = held.ends_at < math.inf
        if table.is_held_only and coming.all():
            return table.set.most_free
        free = table.free.copy()
        np.add.at(free, held.rows[coming], held.vectors[coming])
        most: IntArray = free[table.up].max(axis=0, initial=0)
        return most

    def windows(self, demand: Demand, limit_s: float, least: int) -> Windows | None:
        """The times during which the demand fits each node for ``limit_s``.

        Returns None if it surely never fits at least ``least`` nodes at once.
        """
        if not self._made:
            return self._growing().windows(demand, limit_s, least)
        steps = self._up_to_date()
        fits = demand.able[steps.rows]
        for column, amount in demand.pairs:
            fits &= steps.free[column] >= amount
        if np.count_nonzero(fits & (steps.ends == math.inf)) < least and not self._has_endless_reservation:
            return None  # free amounts only grow, except by reservations
        same = steps.rows[1:] == steps.rows[:-1]
        begins = np.flatnonzero(fits & ~np.concatenate([[False], same & fits[:-1]]))
        ends = np.flatnonzero(fits & ~np.concatenate([same & fits[1:], [False]]))
        long_enough = steps.begins[begins] + limit_s <= steps.ends[ends]
        begins, ends = begins[long_enough], ends[long_enough]
        return Windows(steps.rows[begins], steps.begins[begins], steps.ends[ends], limit_s)

    def kept(self, limit_s: float) -> Kept | None:
        """The room that a job may use on each node if it starts now and runs for ``limit_s``.

        Returns None if no reservation begins in that time. Two limits with no beginning of a reservation between them
        have the same result, because free amounts only fall when a reservation begins.
        """
        n_begun = bisect_left(self._starts_at, self._now + limit_s)
        if n_begun == 0:
            return None
        return self.kept_until(self._starts_at[n_begun - 1])

    @property
    def first_reserved(self) -> float:
        """When the first reservation begins; infinity if there is none."""
        return self._starts_at[0] if self._starts_at else math.inf

    def kept_until(self, until: float) -> Kept:
        """The room that a job may use that lasts beyond ``until``, when a reservation begins, if it delays no other."""
        horizon = self._horizons.get(until)
        if horizon is None:
            horizon = self._horizons[until] = self._new_horizon(until)
        if horizon.n_logged < len(self._log) or horizon.version < self.version:
            self._catch_up(horizon)
        return Kept(horizon.free, self._table)

    def _new_horizon(self, until: float) -> _Horizon:
        """The smallest free amounts of each reserved node, in steps that begin up to ``until``; no bound for others."""
        rows = np.flatnonzero(self._reserved)
        least = np.full(self._table.free.shape, _UNKEPT)
        taken = self._taken_first
        if taken is None:
            least[rows] = self._up_to_date().least(rows, until)
            return _Horizon(until, least, len(self._log), self.version)
        growth = self._growing()
        now, then = growth.at(rows, self._now), growth.at(rows, until) - taken
        least[rows] = np.minimum(now, then)
        horizon = _Horizon(until, least, 0, self.version)
        horizon.ends = dict(zip(rows.tolist(), zip(now, then, strict=True), strict=True))
        return horizon

    def _catch_up(self, horizon: _Horizon) -> None:
        """Update a horizon with the reservations that begin up to it, and with starts on reserved nodes.

        With one reservation, amounts are subtracted as long as they are held. With several, the amounts of starts that
        last beyond the horizon are subtracted, and other changed nodes are computed again.
        """
        again = set()
        for row, ends_at, vector in self._log[horizon.n_logged :]:
            if (ends := horizon.ends.get(row)) is not None:
                horizon.free[row] = _started(ends, vector, lasts=ends_at > horizon.until)
            elif ends_at > horizon.until:
                horizon.free[row] -= vector
            else:
                again.add(row)
        reserved = [rows for at, rows in self._made[horizon.version :] if at <= horizon.until]
        if again or reserved:
            rows = np.unique(np.concatenate([np.array(list(again), dtype=np.int64), *reserved]))
            horizon.free[rows] = self._up_to_date().least(rows, horizon.until)
        if horizon.version < self.version:
            horizon.ends = {}
        horizon.n_logged, horizon.version = len(self._log), self.version

    def _up_to_date(self) -> FreeSteps:
        """The steps, with all starts and reservations."""
        steps = self._steps = self._steps or self._growing().steps()
        if self._new:
            rows, times, vectors = zip(*self._new, strict=True)
            steps.change(np.array(rows), np.array(times), np.array(vectors))
            self._new = []
        return steps

    def _growing(self) -> FreeGrowth:
        """What is free without reservations. After the first one it stays as it is."""
        if self._growth is None:
            self._growth = FreeGrowth(self._table, self._now, self._begun)
        return self._growth


def _started(ends: tuple[IntArray, IntArray], vector: IntArray, *, lasts: bool) -> IntArray:
    """The smaller of what is free now and later, after a start that takes ``vector`` now. ``lasts``: also later."""
    now, later = ends
    now -= vector
    if lasts:
        later -= vector
    return np.minimum(now, later)

"""The free amounts of each node over time: ends of running jobs, starts of this cycle, and reservations.

A node's free amounts are a step function of time (:mod:`rankd.core.placement.free_step`). A demand fits a node during a
run of steps that all have room. If such a run is as long as the job's time limit, the node can be reserved. The steps
are built for the first reservation. All instants are UTC seconds.

Source: reservations of backfilling schedulers (EASY, Lifka 1995, and conservative, Mu'alem and Feitelson 2001), with
the nodes of a reservation named and held.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.placement.free_step import FreeSteps
from rankd.core.placement.node_set import Demand, rows_fitting
from rankd.core.placement.node_table import NodeTable, Share
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray

_UNKEPT = np.iinfo(np.int64).max


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
        candidates = np.unique(self.begins)
        begun = np.searchsorted(np.sort(self.begins), candidates, side="right")
        over = np.searchsorted(np.sort(self.ends), candidates + self.limit_s, side="left")
        return candidates[begun - over >= least]

    def at(self, instant: float, keys: FloatArray) -> list[int]:
        """The rows that fit from ``instant`` on for the whole limit.

        Rows that get room latest are first; equal ones are in the nodes' order.
        """
        fits = (self.begins <= instant) & (instant + self.limit_s <= self.ends)
        rows = self.rows[fits]
        order: list[int] = rows[np.lexsort((rows, keys[rows], -self.begins[fits]))].tolist()
        return order


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
    """The smallest free amounts of each reserved node up to an instant. Later starts and reservations update it."""

    __slots__ = ("free", "n_logged", "until", "version")

    def __init__(self, until: float, free: IntArray, n_logged: int, version: int) -> None:
        self.until = until
        self.free = free
        self.n_logged = n_logged
        self.version = version


class Timeline:
    """The future of a table's nodes. The cycle reports its decisions with :meth:`start` and :meth:`reserve`."""

    def __init__(self, table: NodeTable, now: float) -> None:
        self._table = table
        self._now = now
        self._begun: list[tuple[int, float, IntArray]] = []
        self._new: list[tuple[int, float, IntArray]] = []
        self._taken_first: IntArray | None = None
        """What the first reservation takes of its nodes, by ascending row, while the steps lack nothing else."""
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
            if self._steps is None:
                self._begun.append((row, ends_at, vector))
                continue
            self._taken_first = None
            self._add(row, self._now, ends_at, vector)
            if self._reserved[row]:
                self._log.append((row, ends_at, vector))

    def reserve(self, job: int, rows: Sequence[int], demand: Demand, at: float, limit_s: float) -> None:
        """Reserve these nodes for a job, from ``at`` on for its time limit.

        Of devices without a named model, only the sum is reserved. They are chosen when the job starts.
        """
        is_first = not self._made and not self._new
        for row in rows:
            self._add(row, at, at + limit_s, self._taken(row, demand))
            self._reserved[row] = True
            self._promised.setdefault(row, {})[at] = job
        self._has_endless_reservation |= limit_s == math.inf
        self._made.append((at, np.array(rows)))
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
        free = table.free.copy()
        np.add.at(free, held.rows[coming], held.vectors[coming])
        most: IntArray = free[table.up].max(axis=0, initial=0)
        return most

    def windows(self, demand: Demand, limit_s: float, least: int) -> Windows | None:
        """The times during which the demand fits each node for ``limit_s``.

        Returns None if it surely never fits at least ``least`` nodes at once.
        """
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
            horizon = self._horizons[until] = _Horizon(until, self._least_until(until), len(self._log), self.version)
        elif horizon.n_logged < len(self._log) or horizon.version < self.version:
            self._catch_up(horizon)
        return Kept(horizon.free, self._table)

    def _least_until(self, until: float) -> IntArray:
        """The smallest free amounts of each reserved node, in steps that begin up to ``until``; no bound for others."""
        rows = np.flatnonzero(self._reserved)
        least = np.full(self._table.free.shape, _UNKEPT)
        taken, steps = self._taken_first, self._steps
        if taken is None or steps is None:
            least[rows] = self._up_to_date().least(rows, until)
        else:  # until a first reservation begins, free amounts only grow
            least[rows] = np.minimum(steps.at(rows, self._now), steps.at(rows, until) - taken)
        return least

    def _catch_up(self, horizon: _Horizon) -> None:
        """Update a horizon with the reservations that begin up to it, and with starts on reserved nodes.

        The amounts of starts that last beyond the horizon are subtracted. Other changed nodes are computed again.
        """
        again = set()
        for row, ends_at, vector in self._log[horizon.n_logged :]:
            if ends_at > horizon.until:
                horizon.free[row] -= vector
            else:
                again.add(row)
        reserved = [rows for at, rows in self._made[horizon.version :] if at <= horizon.until]
        if again or reserved:
            rows = np.unique(np.concatenate([np.array(list(again), dtype=np.int64), *reserved]))
            horizon.free[rows] = self._up_to_date().least(rows, horizon.until)
        horizon.n_logged, horizon.version = len(self._log), self.version

    def _up_to_date(self) -> FreeSteps:
        """The steps, with all starts and reservations."""
        steps = self._steps = self._steps or self._build()
        if self._new:
            rows, times, vectors = zip(*self._new, strict=True)
            steps.change(np.array(rows), np.array(times), np.array(vectors))
            self._new, self._taken_first = [], None
        return steps

    def _build(self) -> FreeSteps:
        """The first steps: the amounts free now, and those that become free when running jobs end.

        Jobs over their time limit count as ending now.
        """
        table, now = self._table, self._now
        held = table.held
        up = np.flatnonzero(table.up)
        coming = table.up[held.rows] & (held.ends_at < math.inf)
        begun = [event for event in self._begun if event[1] < math.inf]
        vectors = np.array([vector for _, _, vector in begun], dtype=np.int64).reshape(len(begun), table.free.shape[1])
        ends = np.concatenate([held.ends_at[coming], np.array([at for _, at, _ in begun], dtype=np.float64)])
        return FreeSteps(
            len(table.nodes),
            np.concatenate([up, held.rows[coming], np.array([row for row, _, _ in begun], dtype=np.int64)]),
            np.concatenate([np.full(len(up), now), np.maximum(ends, now)]),
            np.concatenate([table.free[up], held.vectors[coming], vectors]),
        )

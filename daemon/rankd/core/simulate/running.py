"""The jobs that run in a simulation: what they hold, when they end, and what they have used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rankd.core.forecast.holding import Given
from rankd.core.placement.node_set import Held, NodeSet
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.ranking import Usage
from rankd.core.simulate.population import Population


class Running:
    """Columns of the running jobs, one row per job and node. :attr:`next_end_s` is when the next of them ends."""

    def __init__(self, nodes: NodeSet) -> None:
        self._nodes = nodes
        self._places = np.empty(0, dtype=np.int64)
        self._ends_s = np.empty(0)
        self._latest_s = np.empty(0)
        self._sets: dict[int, Mapping[int, int]] = {}
        """The devices of jobs that have some, by row of nodes."""
        no_rows, no_vectors = np.empty(0, dtype=np.int64), np.empty((0, len(nodes.types) + 1), dtype=np.int64)
        self.held = Held(no_rows, no_vectors, np.empty(0), free=nodes.whole)
        self.next_end_s = math.inf
        self.all_expected = True
        """Whether the jobs that ended last were expected to end then."""
        self._most_free: dict[str, int] | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._places)

    @property
    def places(self) -> IntArray:
        """The place of the job of each row, int64 (n,); the rows are those of :attr:`held`."""
        return self._places

    @property
    def free(self) -> IntArray:
        """What each node has free now, int64 (n_nodes, n_types + 1)."""
        return self._nodes.whole if self.held.free is None else self.held.free

    @property
    def most_free(self) -> Mapping[str, int]:
        """The most that any node has free now, by type."""
        if self._most_free is None:
            most = self.free[:, :-1].max(axis=0).tolist()
            self._most_free = dict(zip(self._nodes.types, most, strict=True))
        return self._most_free

    def start(self, places: Sequence[int], parts: Sequence[Given], work: Population, now: float) -> None:
        """Jobs start now. ``parts``: what each of them gets."""
        self._most_free = None
        rows = np.array([row for own in parts for row in own.rows], dtype=np.int64)
        vectors = parts[0].vectors if len(parts) == 1 else np.concatenate([own.vectors for own in parts])
        repeated = np.array(places, dtype=np.int64)
        if len(rows) > len(parts):
            repeated = np.repeat(repeated, [len(own.rows) for own in parts])
        self._places = np.concatenate([self._places, repeated])
        self._ends_s = np.concatenate([self._ends_s, now + work.runs_s[repeated]])
        self._latest_s = np.concatenate([self._latest_s, now + work.limits_s[repeated]])
        self._sets.update((place, own.devices) for place, own in zip(places, parts, strict=True) if own.devices)
        self.held = Held(
            np.concatenate([self.held.rows, rows]),
            np.concatenate([self.held.vectors, vectors]),
            np.concatenate([self.held.ends_at, now + work.expected_s[repeated]]),
            self._devices(),
            _changed(self.free, rows, -vectors),
        )
        self.next_end_s = float(self._ends_s.min())

    def _devices(self) -> Mapping[int, int]:
        """The devices that are held, by row of nodes."""
        if not self._sets:
            return {}
        held: dict[int, int] = {}
        for sets in self._sets.values():
            for row, devices in sets.items():
                held[row] = held.get(row, 0) | devices
        return held

    def end(self, now: float) -> IntArray:
        """Forget the jobs that have ended by now; returns their places, int64 (n,), ascending."""
        if self.next_end_s > now:
            return self._places[:0]
        runs, self._most_free, held = self._ends_s > now, None, self.held
        over = ~runs
        ended = self._places[over]
        if len(ended) > 1:
            ended = np.unique(ended)
        for place in ended.tolist() if self._sets else ():
            self._sets.pop(place, None)
        self.all_expected = bool((held.ends_at[over] <= now).all())
        self._places, self._ends_s = self._places[runs], self._ends_s[runs]
        self._latest_s = self._latest_s[runs]
        free = _changed(self.free, held.rows[over], held.vectors[over])
        self.held = Held(held.rows[runs], held.vectors[runs], held.ends_at[runs], self._devices(), free)
        self.next_end_s = float(self._ends_s.min(initial=math.inf))
        return ended

    def outlive(self, now: float) -> None:
        """Jobs that run longer than expected are expected to use their whole limits."""
        late = self.held.ends_at <= now
        if late.any():
            ends_at = np.where(late, self._latest_s, self.held.ends_at)
            self.held = Held(self.held.rows, self.held.vectors, ends_at, self.held.devices, self.held.free)


def _changed(free: IntArray, rows: IntArray, vectors: IntArray) -> IntArray:
    """A copy of what is free, with these amounts added at these rows. A cycle may still have the old one."""
    changed = free.copy()
    if len(rows) == 1:
        changed[rows[0]] += vectors[0]
    else:
        np.add.at(changed, rows, vectors)
    return changed


class UsageBook:
    """What users have used: charges of running and ended jobs, settled as the daemon's passes settle them."""

    def __init__(self, work: Population, half_life_s: float | None, begin_s: float) -> None:
        self._work = work
        self._half_life_s = half_life_s
        self._amounts = np.zeros(work.tree.n_users)
        self._at = np.full(work.tree.n_users, begin_s)
        self._open = np.empty(0, dtype=np.int64)
        self._since = np.empty(0)
        self._until = np.empty(0)

    def start(self, places: Sequence[int], now: float) -> None:
        """Jobs start now."""
        self._open = np.concatenate([self._open, np.array(places, dtype=np.int64)])
        self._since = np.concatenate([self._since, np.full(len(places), now)])
        self._until = np.concatenate([self._until, np.full(len(places), math.inf)])

    def end(self, places: IntArray, now: float) -> None:
        """Jobs end now."""
        for place in places.tolist():
            self._until[self._open == place] = now

    def usage(self) -> Usage:
        """The usage for a pass."""
        return Usage(
            amounts=self._amounts,
            at=self._at,
            users=self._work.columns.associations[self._open],
            rates=self._work.rates[self._open],
            since=self._since,
            until=self._until,
        )

    def settle(self, usage: Usage, now: float) -> None:
        """Add the charges of ended jobs to the accounts, after a pass."""
        runs = np.isinf(self._until)
        if runs.all():
            return
        self._amounts, self._at = usage.settled(now, self._half_life_s)
        self._open, self._since, self._until = self._open[runs], self._since[runs], self._until[runs]

"""The kinds of a simulation's pending jobs. Kinds that no pending job has are forgotten from time to time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.request import Kind
from rankd.core.ranking.columns import IntArray
from rankd.core.simulate.population import Population

_AT_LEAST = 256
_GROWTH = 4


class SimulatedKinds:
    """``table`` for cycles, and ``of_jobs`` int64 (n_jobs,): the kind of each pending job.

    When kinds are forgotten, both become other objects. ``by_user``: users and their groups count, because of limits.
    """

    def __init__(
        self, work: Population, types: Iterable[str], groups: Mapping[str, tuple[str, ...]], *, by_user: bool
    ) -> None:
        self._work = work
        self._types = frozenset(types)
        self._groups = groups
        self._by_user = by_user
        self._most = _AT_LEAST
        self._numbers: dict[tuple[object, ...], int] = {}
        self.table = KindTable(known=self._types)
        self.of_jobs: IntArray = np.zeros(len(work.jobs), dtype=np.int64)

    def add(self, places: IntArray, pending: IntArray) -> None:
        """Give these new jobs their kinds. ``pending``: the jobs that wait already."""
        if len(self.table) > self._most:
            self._forget(pending)
        for place in places.tolist():
            self.of_jobs[place] = self._number(place)

    def _number(self, place: int) -> int:
        columns, job = self._work.columns, self._work.jobs[place]
        shape, limit_s = int(columns.shapes[place]), float(self._work.expected_s[place])
        user, groups = (job.user, self.groups_of(place)) if self._by_user else ("", ())
        key = (shape, limit_s, user, groups)
        number = self._numbers.get(key)
        if number is None:
            own = Kind(shape=self._work.shapes[shape], time_limit_s=limit_s, user=user, groups=groups)
            number = self._numbers[key] = self.table.add(own)
        return number

    def groups_of(self, place: int) -> tuple[str, ...]:
        """The groups of a job's user: those that the site knows, else the job's group."""
        job = self._work.jobs[place]
        return self._groups.get(job.user) or ((job.group,) if job.group else ())

    def _forget(self, pending: IntArray) -> None:
        self._numbers, self.table, self.of_jobs = {}, KindTable(known=self._types), self.of_jobs.copy()
        for place in pending.tolist():
            self.of_jobs[place] = self._number(place)
        self._most = max(_AT_LEAST, _GROWTH * len(self.table))

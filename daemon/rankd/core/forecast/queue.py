"""The jobs of a partition that wait in a forecast, leaf by leaf, in the order of the ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.forecast.live import LaterJob
from rankd.core.model.int32 import INT32_MIN
from rankd.core.placement.problem import Placement, WaitingJobs
from rankd.core.ranking.columns import IntArray


class ForecastQueue:
    """``waiting`` for cycles; unchanged leaves stay the same objects, as cycles expect."""

    def __init__(self, waiting: Mapping[int, WaitingJobs]) -> None:
        self.waiting: dict[int, WaitingJobs] = dict(waiting)
        self._leaf_of = {job: leaf for leaf, own in waiting.items() for job in own.jobs.tolist()}
        self._n_behind = 0

    def __bool__(self) -> bool:
        """Whether any job waits."""
        return bool(self.waiting)

    def __contains__(self, job: int) -> bool:
        return job in self._leaf_of

    def jobs(self) -> Iterable[tuple[int, int]]:
        """All jobs that wait, each with its leaf."""
        return self._leaf_of.items()

    def kinds(self) -> IntArray:
        """The kinds of all jobs that wait, int64 (n,)."""
        return np.concatenate([own.kinds for own in self.waiting.values()])

    def kind_of(self, job: int) -> int:
        """The kind of a job that waits."""
        own = self.waiting[self._leaf_of[job]]
        return int(own.kinds[np.flatnonzero(own.jobs == job)[0]])

    def kinds_of(self, placed: Sequence[Placement]) -> list[tuple[int, int]]:
        """Leaf and kind of each placed job."""
        known: dict[int, tuple[int, int]] = {}
        for leaf in {self._leaf_of[one.job] for one in placed}:
            own = self.waiting[leaf]
            known.update((job, (leaf, kind)) for job, kind in zip(own.jobs.tolist(), own.kinds.tolist(), strict=True))
        return [known[one.job] for one in placed]

    def remove(self, placed: Sequence[Placement]) -> None:
        """Jobs start; of arrays, as many tasks as there are placements."""
        started = Counter(one.job for one in placed)
        for leaf in {self._leaf_of[job] for job in started}:
            self._remove(leaf, started)

    def _remove(self, leaf: int, started: Mapping[int, int]) -> None:
        own, ahead = self.waiting[leaf], dict(started)
        left = np.ones(len(own.jobs), dtype=np.int64) if own.tasks is None else own.tasks.copy()
        for place in np.flatnonzero(np.isin(own.jobs, list(started))).tolist():
            job = int(own.jobs[place])  # an array may have several entries, between which its other tasks are
            number = min(ahead[job], int(left[place]))
            left[place] -= number
            ahead[job] -= number
        for job in set(own.jobs[left <= 0].tolist()).difference(own.jobs[left > 0].tolist()):
            del self._leaf_of[job]
        if not (left > 0).any():
            del self.waiting[leaf]
            return
        self.waiting[leaf] = _taken(own, left)

    def add(self, later: LaterJob) -> None:
        """A job becomes eligible. It comes after all others of its leaf, and with the lowest priority."""
        self._n_behind += 1
        one = WaitingJobs(
            jobs=np.array([later.job], dtype=np.int64),
            priorities=np.array([max(INT32_MIN, -(2**30) - self._n_behind)], dtype=np.int64),
            kinds=np.array([later.kind], dtype=np.int64),
            applications=np.array([later.application], dtype=np.int64),
            submitted_at=np.array([later.submitted_at]),
            tasks=np.array([later.tasks], dtype=np.int64),
        )
        own = self.waiting.get(later.queue)
        self.waiting[later.queue] = one if own is None else _joined(own, one)
        self._leaf_of[later.job] = later.queue


def _taken(own: WaitingJobs, left: IntArray) -> WaitingJobs:
    """The jobs of which some tasks are left."""
    kept = left > 0
    return WaitingJobs(
        jobs=own.jobs[kept],
        priorities=own.priorities[kept],
        kinds=own.kinds[kept],
        applications=None if own.applications is None else own.applications[kept],
        submitted_at=None if own.submitted_at is None else own.submitted_at[kept],
        tasks=None if own.tasks is None else left[kept],
    )


def _joined(own: WaitingJobs, other: WaitingJobs) -> WaitingJobs:
    """Two parts of a leaf. Columns that the first one lacks are left out, but for the tasks."""
    tasks = np.ones(len(own.jobs), dtype=np.int64) if own.tasks is None else own.tasks
    columns = {
        name: np.concatenate([mine, getattr(other, name)])
        for name in ("jobs", "priorities", "kinds", "applications", "submitted_at")
        if (mine := getattr(own, name)) is not None
    }
    both = np.concatenate([tasks, other.tasks if other.tasks is not None else np.ones(1, dtype=np.int64)])
    return msgspec.structs.replace(own, **columns, tasks=both if (both > 1).any() else None)

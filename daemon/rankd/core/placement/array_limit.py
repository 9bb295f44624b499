"""How many more tasks of each array may start in a cycle. Tasks with records of their own count like the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankd.core.ranking.columns import IntArray

_NOTHING: Mapping[int, int] = {}


class ArrayLimits:
    """The arrays with a limit.

    ``rooms``: how many tasks of each may start. ``array_of``: the arrays of tasks with records of their own.
    """

    def __init__(self, rooms: Mapping[int, int] = _NOTHING, array_of: Mapping[int, int] = _NOTHING) -> None:
        self._rooms = dict(rooms)
        self._array_of = array_of

    def is_reached(self, job: int) -> bool:
        """Whether no more tasks of this array, or of this task's array, may start."""
        return bool(self._rooms) and self._rooms.get(self._array_of.get(job, job), 1) <= 0

    def arrays_of(self, jobs: IntArray) -> IntArray:
        """The jobs themselves; for tasks with records of their own, their arrays."""
        if not self._array_of:
            return jobs
        arrays = jobs.copy()
        for place in np.flatnonzero(np.isin(jobs, list(self._array_of))).tolist():
            arrays[place] = self._array_of[int(jobs[place])]
        return arrays

    def room(self, job: int) -> int | None:
        """How many more tasks of this array, or of this task's array, may start; None: any number."""
        return self._rooms.get(self._array_of.get(job, job))

    def start(self, job: int) -> None:
        """Count a task of this array, or this task."""
        array = self._array_of.get(job, job)
        if array in self._rooms:
            self._rooms[array] -= 1

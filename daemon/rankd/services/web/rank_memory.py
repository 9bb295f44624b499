"""The ranks of the first jobs over time, as far as this page has seen them. Pure.

The records have the newest ranking, and no earlier one: a ranking of a million jobs for every second would be too much
to keep. The page remembers the order of the first places at some times. With time, the samples get rarer, so that a
day needs no more memory than an hour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FIRST_S, RAREST_S = 10.0, 600.0
"""Seconds between samples, at first and at the end."""
MOST_SAMPLES = 144
"""Samples of 10,000 jobs have 80 kB each."""


class RankMemory:
    """Samples of the ranking, oldest first."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, NDArray[np.int64]]] = []
        self._every_s = FIRST_S

    @property
    def since(self) -> float | None:
        """When the oldest sample was taken (UTC seconds); None without one."""
        return self._samples[0][0] if self._samples else None

    def is_due(self, now: float) -> bool:
        """Whether to take a sample now."""
        return not self._samples or not 0 <= now - self._samples[-1][0] < self._every_s

    def note(self, at: float, jobs: Sequence[int]) -> None:
        """Remember the order of these jobs, the first of which has rank 1. A clock that goes back empties it."""
        if self._samples and at <= self._samples[-1][0]:
            self._samples.clear()
        self._samples.append((at, np.asarray(jobs, dtype=np.int64)))
        if len(self._samples) > MOST_SAMPLES:
            if self._every_s < RAREST_S:
                self._every_s = min(RAREST_S, 2 * self._every_s)
                del self._samples[1::2]
            else:
                del self._samples[0]

    def of(self, job: int) -> list[tuple[float, int]]:
        """When the job had which rank, oldest first, where it was among the samples."""
        found = list[tuple[float, int]]()
        for at, jobs in self._samples:
            places = np.flatnonzero(jobs == job)
            if len(places):
                found.append((at, int(places[0]) + 1))
        return found

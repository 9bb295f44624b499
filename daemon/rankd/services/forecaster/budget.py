"""How much of a processor core the forecaster uses: it measures its own processor time, and rests accordingly."""

from __future__ import annotations

import time

SLICE_S = 0.05
"""Seconds of processor time after which it rests."""


class Budget:
    """``share``: the part of a core that may be used, on average from the start of :meth:`begin` on."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._cpu_s = self._wall_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin to count."""
        self._cpu_s, self._wall_s = time.process_time(), time.monotonic()

    @property
    def used_s(self) -> float:
        """Processor time since :meth:`begin`."""
        return time.process_time() - self._cpu_s

    @property
    def took_s(self) -> float:
        """Time since :meth:`begin`."""
        return time.monotonic() - self._wall_s

    @property
    def rest_s(self) -> float:
        """For how long to rest, so that not more than the share is used."""
        return max(0.0, self.used_s / self.share - self.took_s)

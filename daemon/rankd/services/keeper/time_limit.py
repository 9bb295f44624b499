"""The time limit of one job, which may change while the job runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TimeLimit:
    """Calls ``over`` when the job has run for ``seconds`` since :meth:`begin`. With None, there is no limit."""

    def __init__(self, seconds: float | None, over: Callable[[], None]) -> None:
        self._seconds = seconds
        self._over = over
        self._began: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The job starts now."""
        self._began = asyncio.get_running_loop().time()
        self._set()

    def change(self, seconds: float | None) -> None:
        """The job has this limit from now on. One that has passed already is over at once."""
        self._seconds = seconds
        self._set()

    def stop(self) -> None:
        """The job has ended: never call."""
        self._began = None
        self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._began is not None and self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_at(self._began + self._seconds, self._over)

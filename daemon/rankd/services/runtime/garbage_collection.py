"""The interpreter's search for cyclic garbage, tuned so that it does not interrupt a service for long.

A full search visits every object that refers to others. In a service with its configuration and queues this takes 30
to 200 ms, several times a minute under load, and the rest of the process stops meanwhile. Objects that survive a
full search are set aside, so that the next search visits only newer ones. Once in a while everything is searched,
because objects that were set aside may have become garbage, too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

FULL = 2
"""The generation whose search is a full one."""
YOUNG = 10_000
"""This many new objects start a search among them. The interpreter's 700 are reached by every batch of jobs."""
ALL_EVERY_S = 3_600.0


class SetAside:
    """A callback for ``gc.callbacks``: after each full search, the remaining objects are not searched again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._searched_all_at = clock()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Handle the start or stop of a search; the interpreter calls this."""
        if info["generation"] != FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif self._clock() - self._searched_all_at >= ALL_EVERY_S:
            self._searched_all_at = self._clock()
            gc.unfreeze()


def search_less() -> None:
    """Search less often, for the rest of this process."""
    gc.set_threshold(YOUNG, 10, 10)
    gc.callbacks.append(SetAside())

"""The interpreter's search for cyclic garbage, so that no service stands still for it.

A full search looks at every object that refers to others: in a service with its configuration and queues that is
30 to 200 ms, several times a minute under load, in which nothing else of the process runs. What has survived one is
set aside, so that the next looks at what came since. Once in a while all of it is searched, since those set aside may
have become garbage, too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

FULL = 2
"""The generation whose search is a full one."""
YOUNG = 10_000
"""So many new objects make a search among them; the interpreter's 700 come with every batch of jobs."""
ALL_EVERY_S = 3_600.0


class SetAside:
    """A callback for ``gc.callbacks``: after each full search, what is left is not looked at again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._searched_all_at = clock()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """As the interpreter calls it, before and after each search."""
        if info["generation"] != FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif self._clock() - self._searched_all_at >= ALL_EVERY_S:
            self._searched_all_at = self._clock()
            gc.unfreeze()


def search_less() -> None:
    """For the rest of this process."""
    gc.set_threshold(YOUNG, 10, 10)
    gc.callbacks.append(SetAside())

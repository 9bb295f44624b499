"""Reports of nodes about allocations that they were never given: counted, and logged once a minute for each node."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

log = logging.getLogger("rankd.intake")

LOG_EVERY_S = 60.0
MOST_NODES = 10_000


class ForeignReports:
    """How many there were since the start. ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._clock = clock
        self._log_at: dict[str, float] = {}
        self._not_logged: dict[str, int] = {}

    def note(self, node: str, allocations: Sequence[int]) -> None:
        """Count the reports of one message."""
        self.count += len(allocations)
        n_more = self._not_logged.pop(node, 0)
        now = self._clock()
        if now < self._log_at.get(node, now):
            self._not_logged[node] = n_more + len(allocations)
            return
        if len(self._log_at) >= MOST_NODES:
            self._log_at.clear()
            self._not_logged.clear()
        self._log_at[node] = now + LOG_EVERY_S
        log.warning(
            "node '%s' reported allocation %d, which it was never given: %d such reports since the last line, without"
            " effect; if its agent is not yours, revoke its credentials",
            *(node[:253], allocations[0], n_more + len(allocations)),
        )

"""What ``rankd diag`` shows about the notifier."""

from __future__ import annotations

import os
from collections import Counter

from rankd.services.runtime.clock import Clock
from rankd.services.runtime.statistic import Durations
from rankd.wire.diag import ConfigurationDiag, NotifierDiag


class NotifierStatistic:
    """Counts since the start, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self.durations = Durations()
        self._started_at = self._clock()
        self._counts: Counter[str] = Counter()
        self._problem: str | None = None

    def noted(self, number: int) -> None:
        """Note that this many notifications are new."""
        self._counts["noted"] += number

    def tried(self, scheme: str, seconds: float, problem: str | None, *, is_over: bool) -> None:
        """Note an attempt: its target's scheme, how long it took, why it failed, and whether there will be no other."""
        self.durations.add(scheme, seconds)
        self._counts["sent" if problem is None else "failed"] += 1
        if problem is not None:
            self._problem = problem
            self._counts["given_up"] += is_over

    def shown(self, in_flight: int, configuration: ConfigurationDiag) -> NotifierDiag:
        """All counts, as a message."""
        return NotifierDiag(
            pid=os.getpid(),
            started_at=self._started_at,
            noted=self._counts["noted"],
            sent=self._counts["sent"],
            failed=self._counts["failed"],
            given_up=self._counts["given_up"],
            in_flight=in_flight,
            durations=self.durations.spreads(),
            problem=self._problem,
            configuration=configuration,
        )

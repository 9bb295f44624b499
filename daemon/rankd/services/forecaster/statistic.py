"""What ``rankd diag`` shows about the forecaster."""

from __future__ import annotations

import os

from rankd.services.runtime.clock import Clock
from rankd.services.runtime.statistic import Durations
from rankd.store.record.forecast import ForecastRow
from rankd.wire.diag import ConfigurationDiag, ForecasterDiag


class ForecasterStatistic:
    """Counts since the start, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self.durations = Durations()
        self._started_at = self._clock()
        self._forecasts = 0
        self._last: ForecastRow | None = None

    def made(self, row: ForecastRow) -> None:
        """Note a forecast."""
        self._forecasts += 1
        self._last = row
        self.durations.add("forecast", row.took_s)
        self.durations.add("processor", row.cpu_s)

    def shown(self, configuration: ConfigurationDiag) -> ForecasterDiag:
        """All counts, as a message."""
        last = self._last
        return ForecasterDiag(
            pid=os.getpid(),
            started_at=self._started_at,
            forecasts=self._forecasts,
            last_made_at=None if last is None else last.made_at,
            jobs=0 if last is None else last.jobs,
            beyond=0 if last is None else last.beyond,
            durations=self.durations.spreads(),
            configuration=configuration,
        )

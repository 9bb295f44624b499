"""How much a job uses its devices, from samples every few seconds."""

from __future__ import annotations

from collections import deque

import msgspec

RECENT_S = 600.0
IDLE_BELOW = 0.01
"""A device below this utilisation is idle."""


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a device did since the report before.

    ``recent``: mean utilisation over :data:`RECENT_S`, 0 to 1; None if it can't be read. ``busy``: the sum of the
    ``samples`` since the last report. ``peak_bytes``: the most memory since the job started. ``idle_s``: for how long
    it has been idle.
    """

    recent: float | None
    busy: float
    samples: int
    peak_bytes: int
    idle_s: float | None


class Usage:
    """One device of one job. Times are seconds of a clock that is never set."""

    def __init__(self, started_s: float) -> None:
        self._recent: deque[tuple[float, float]] = deque()
        self._busy = 0.0
        self._samples = 0
        self._peak = 0
        self._busy_at = started_s
        self._seen_s = started_s

    def add(self, now_s: float, busy: float | None, memory_bytes: int | None) -> bool:
        """Add a sample; returns whether the device has become busy after it was idle for :data:`RECENT_S`."""
        self._peak = max(self._peak, memory_bytes or 0)
        if busy is None:
            return False
        has_woken = busy >= IDLE_BELOW and now_s - self._busy_at >= RECENT_S
        self._seen_s = now_s
        if busy >= IDLE_BELOW:
            self._busy_at = now_s
        self._busy += busy
        self._samples += 1
        self._recent.append((now_s, busy))
        while self._recent[0][0] <= now_s - RECENT_S:
            self._recent.popleft()
        return has_woken

    def report(self) -> UsageReport:
        """The use since the last call of this."""
        samples, busy = self._samples, self._busy
        self._samples, self._busy = 0, 0.0
        return UsageReport(
            recent=sum(value for _, value in self._recent) / len(self._recent) if self._recent else None,
            busy=busy,
            samples=samples,
            peak_bytes=self._peak,
            idle_s=self._seen_s - self._busy_at if self._recent else None,
        )

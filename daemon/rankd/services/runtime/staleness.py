"""Whether new generations still arrive. If the prioritizer is away, the scheduler continues without it."""

from __future__ import annotations


class Staleness:
    """Uses the caller's clock. If the clock is set back, the wait starts again."""

    def __init__(self, after_s: float) -> None:
        self.is_stale = False
        self.after_s = after_s
        self._generation: int | None = None
        self._since = 0.0

    def look(self, generation: int, now: float) -> bool:
        """Note the newest generation; returns whether it has just become stale, or fresh again."""
        if generation != self._generation or now < self._since:
            self._generation, self._since = generation, now
        was, self.is_stale = self.is_stale, now - self._since >= self.after_s
        return was != self.is_stale

    def age_s(self, now: float) -> float:
        """For how many seconds the newest generation has been the newest."""
        return max(now - self._since, 0.0)

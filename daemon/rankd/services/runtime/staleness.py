"""Whether generations still come: the prioritizer may be away, and the scheduler goes on without it."""

from __future__ import annotations


class Staleness:
    """By the clock of who asks; a clock that is set back begins the wait anew."""

    def __init__(self, after_s: float) -> None:
        self.is_stale = False
        self.after_s = after_s
        self._generation: int | None = None
        self._since = 0.0

    def look(self, generation: int, now: float) -> bool:
        """Say which generation is the newest; whether that makes it stale, or fresh again."""
        if generation != self._generation or now < self._since:
            self._generation, self._since = generation, now
        was, self.is_stale = self.is_stale, now - self._since >= self.after_s
        return was != self.is_stale

    def age_s(self, now: float) -> float:
        """How long the newest generation has been it."""
        return max(now - self._since, 0.0)

"""How often somebody may ask: so many requests at once, then so many in a second."""

from __future__ import annotations

MOST_ASKERS = 10_000
"""Askers that are remembered. Beyond that, those who have not asked for a while are forgotten."""


class Rate:
    """A bucket for each asker: ``burst`` requests fit in, and ``per_s`` of them run out in a second."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._level: dict[str, tuple[float, float]] = {}
        """How full each bucket was, and when (seconds)."""

    def allows(self, asker: str, now: float) -> bool:
        """Whether this request may be answered; counts it if so."""
        if len(self._level) >= MOST_ASKERS:
            self._forget(now)
        level = self._level_at(asker, now)
        if level + 1 > self._burst:
            return False
        self._level[asker] = (level + 1, now)
        return True

    def _level_at(self, asker: str, now: float) -> float:
        level, at = self._level.get(asker, (0.0, now))
        return max(0.0, level - max(0.0, now - at) * self._per_s)

    def _forget(self, now: float) -> None:
        for asker in [asker for asker in self._level if self._level_at(asker, now) == 0]:
            del self._level[asker]

"""How often an asker may ask: a bucket of tokens that fills at a steady rate. Has no clock: callers give the time."""

from __future__ import annotations

BURST_S = 2.0
"""A bucket holds the tokens of this many seconds, which an asker may spend at once after a pause."""
ROUNDING = 1e-6
"""A smaller part of a token is not waited for: the clock may not be able to tell such a moment from the present one."""


class TokenBucket:
    """The tokens of one asker. Begins full."""

    __slots__ = ("_at", "_left")

    def __init__(self, rate: float, now: float) -> None:
        self._left = rate * BURST_S
        self._at = now

    def wait_s(self, cost: float, rate: float, now: float) -> float:
        """Seconds until ``cost`` tokens are there; 0 if they are. ``rate``: tokens per second, which may have changed.

        A cost above what the bucket holds waits for a full bucket, and then leaves a debt.
        """
        most = rate * BURST_S
        self._left = min(most, self._left + (now - self._at) * rate)
        self._at = now
        missing = min(cost, most) - self._left
        return missing / rate if missing > ROUNDING else 0.0

    def take(self, cost: float) -> None:
        """Spend tokens, after :meth:`wait_s` returned 0 for them."""
        self._left -= cost

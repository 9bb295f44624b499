"""How often an asker may ask: a bucket of tokens that fills at a steady rate. Has no clock: callers give the time."""

from __future__ import annotations

BURST_S = 2.0
"""A bucket holds the tokens of this many seconds, which an asker may spend at once after a pause."""
ROUNDING = 1e-6
"""A smaller part of a token is not waited for: the clock may not be able to tell such a moment from the present one."""
MOST_ASKERS = 20_000
"""Askers whose buckets are remembered."""


class TokenBucket:
    """The tokens of one asker. Begins full. ``burst_s``: it holds the tokens of so many seconds."""

    __slots__ = ("_burst_s", "_left", "at")

    def __init__(self, rate: float, now: float, burst_s: float = BURST_S) -> None:
        self._burst_s = burst_s
        self._left = rate * burst_s
        self.at = now
        """When it was asked last."""

    def wait_s(self, cost: float, rate: float, now: float) -> float:
        """Seconds until ``cost`` tokens are there; 0 if they are. ``rate``: tokens per second, which may have changed.

        A cost above what the bucket holds waits for a full bucket, and then leaves a debt.
        """
        most = rate * self._burst_s
        self._left = self._tokens(rate, now)
        self.at = max(self.at, now)
        missing = min(cost, most) - self._left
        return missing / rate if missing > ROUNDING else 0.0

    def take(self, cost: float) -> None:
        """Spend tokens, after :meth:`wait_s` returned 0 for them."""
        self._left -= cost

    def is_full(self, rate: float, now: float) -> bool:
        """Whether a new bucket would hold no more."""
        return self._tokens(rate, now) >= rate * self._burst_s

    def _tokens(self, rate: float, now: float) -> float:
        """What it holds now. A clock that goes back adds nothing."""
        return min(rate * self._burst_s, self._left + max(0.0, now - self.at) * rate)


class TokenBuckets:
    """A bucket for each asker, all of the same ``burst_s``. Remembers at most :data:`MOST_ASKERS`."""

    def __init__(self, burst_s: float = BURST_S) -> None:
        self._burst_s = burst_s
        self._of: dict[str, TokenBucket] = {}

    def spend(self, asker: str, cost: float, rate: float, now: float) -> float:
        """Spend tokens of an asker. Returns 0, or the seconds until they are there; then none is spent."""
        bucket = self._of.get(asker)
        if bucket is None:
            self._forget(rate, now)
            bucket = self._of[asker] = TokenBucket(rate, now, self._burst_s)
        wait_s = bucket.wait_s(cost, rate, now)
        if not wait_s:
            bucket.take(cost)
        return wait_s

    def _forget(self, rate: float, now: float) -> None:
        """If there are too many, forget full buckets, and then those that were not asked for the longest time."""
        if len(self._of) < MOST_ASKERS:
            return
        kept = [(name, bucket) for name, bucket in self._of.items() if not bucket.is_full(rate, now)]
        kept.sort(key=lambda item: item[1].at)
        self._of = dict(kept[-(MOST_ASKERS // 2) :])

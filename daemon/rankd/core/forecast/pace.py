"""The part of their time limits that jobs use, learned from those that have ended.

A user's next job is taken to use the median part of the user's last jobs in the same account. With fewer than
:data:`AT_LEAST` of them, the median of the account's last jobs counts, then that of the site's; without jobs, all of
the limit. Source of the method: medians of a user's last jobs are close to better predictors, see Tsafrir, Etsion and
Feitelson, Backfilling using system-generated predictions, IEEE TPDS 2007.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from statistics import median

AT_LEAST = 20
"""The fewest jobs that a median is taken of."""
_KEPT = 50
"""The last jobs of each user and account that count."""
_KEPT_OF_SITE = 500

Pair = tuple[str, str]
"""An account and a user."""


class Paces:
    """What the last jobs used of their limits; the newest job is added last."""

    def __init__(self) -> None:
        self._of_user: dict[Pair, deque[float]] = {}
        self._of_account: dict[str, deque[float]] = {}
        self._of_site: deque[float] = deque(maxlen=_KEPT_OF_SITE)
        self._medians: dict[object, float] = {}

    def add(self, pair: Pair, run_s: float, limit_s: float) -> None:
        """A job has ended. ``limit_s`` is positive."""
        part = min(1.0, max(0.0, run_s / limit_s))
        self._of_user.setdefault(pair, deque(maxlen=_KEPT)).append(part)
        self._of_account.setdefault(pair[0], deque(maxlen=_KEPT)).append(part)
        self._of_site.append(part)
        self._medians.clear()

    @property
    def of_site(self) -> float:
        """The median of the site's last jobs; 1 while there are fewer than :data:`AT_LEAST`."""
        return self._median(None, self._of_site) if len(self._of_site) >= AT_LEAST else 1.0

    def of(self, pair: Pair) -> float:
        """The part of its limit that a job of this account and user is expected to use, 0 to 1."""
        of_user, of_account = self._of_user.get(pair, ()), self._of_account.get(pair[0], ())
        if len(of_user) >= AT_LEAST:
            return self._median(pair, of_user)
        return self._median(pair[0], of_account) if len(of_account) >= AT_LEAST else self.of_site

    def _median(self, key: object, parts: Collection[float]) -> float:
        if key not in self._medians:
            self._medians[key] = median(parts)
        return self._medians[key]

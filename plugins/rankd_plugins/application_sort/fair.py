"""Fair: the application that uses least is first.

Shares are compared from the largest to the smallest. A missing share counts as 0. Source: YuniKorn's FairSortPolicy
(``application.sort.policy: fair``).

>>> least, middle, most = (0.25, 0.2), (0.5,), (0.5, 0.1)
>>> sorted([most, least, middle, ()], key=Fair().key)
[(), (0.25, 0.2), (0.5,), (0.5, 0.1)]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rankd.core.ranking.application_sort import Candidate, Shares, SortKey


class Fair:
    """Order by usage, ascending."""

    name = "fair"
    goes_by_usage = True
    holds_back = False

    def key(self, shares: Shares) -> SortKey:
        """The shares themselves. All are positive, so a missing share is smaller than any other."""
        return shares

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:  # noqa: ARG002
        """All candidates."""
        return range(len(candidates))

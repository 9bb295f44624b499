"""Fair: the application that uses least goes first.

Shares are compared from the largest down, missing ones are 0. Source: YuniKorn's FairSortPolicy
(``application.sort.policy: fair``).

>>> least, middle, most = (0.25, 0.2), (0.5,), (0.5, 0.1)
>>> sorted([most, least, middle, ()], key=Fair().key)
[(), (0.25, 0.2), (0.5,), (0.5, 0.1)]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rankd.core.ranking.application_sort import Candidate, Shares, SortKey


class Fair:
    """Usage ascending."""

    name = "fair"
    goes_by_usage = True
    holds_back = False

    def key(self, shares: Shares) -> SortKey:
        """As they are: all are positive, so that a missing one is smaller than any."""
        return shares

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:  # noqa: ARG002
        """All."""
        return range(len(candidates))

"""Fifo: the application that was created first is first.

Source: YuniKorn's FifoSortPolicy (``application.sort.policy: fifo``), rankd's default.

>>> Fifo().key((0.5,)) == Fifo().key(())          # usage makes no difference: creation time decides
True
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rankd.core.ranking.application_sort import Candidate, Shares, SortKey


class Fifo:
    """Order by creation time, ascending."""

    name = "fifo"
    goes_by_usage = False
    holds_back = False

    def key(self, shares: Shares) -> SortKey:  # noqa: ARG002 - the protocol's
        """The same key for all applications."""
        return ()

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:  # noqa: ARG002
        """All candidates."""
        return range(len(candidates))

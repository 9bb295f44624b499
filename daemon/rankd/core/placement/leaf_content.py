"""Which kinds of jobs a leaf has, how many of each, and what these ask for; kept as long as its jobs are the same."""

from __future__ import annotations

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.kind_table import KindTable
from rankd.core.ranking.columns import IntArray

_DENSE = 8
"""Leaves with more jobs than an eighth of the kinds count in an array of all kinds."""


class LeafContent:
    """Of a leaf's jobs: their kinds, int64 (n_own_kinds,), ascending, and the number of jobs of each.

    ``most``: the most of each type that any of them takes with the fewest nodes, (n_types,), columns as the table
    of kinds has them. ``asked``: what all of them ask for. Several forests may share one.
    """

    __slots__ = ("_of", "asked", "counts", "has_exclusive", "kinds", "most")

    def __init__(self, of: IntArray, table: KindTable) -> None:
        """Of the kinds of each job, int64 (n_jobs,)."""
        self._of = of
        self.kinds, self.counts = _counted(of, len(table))
        self.asked: Resources = table.summed(self.kinds, self.counts)
        self.most: IntArray = table.most_of(self.kinds)
        self.has_exclusive = bool(table.exclusive[self.kinds].any())

    def is_of(self, kinds: IntArray, table: KindTable) -> bool:
        """Whether these are as many of each kind, in whatever order."""
        known = self._of
        if kinds is known:
            return True
        if len(kinds) != len(known):
            return False
        if (kinds != known).any():
            own_kinds, counts = _counted(kinds, len(table))
            if not np.array_equal(own_kinds, self.kinds) or (counts != self.counts).any():
                return False
        self._of = kinds
        return True


def _counted(kinds: IntArray, n_kinds: int) -> tuple[IntArray, IntArray]:
    """Those that there are, ascending, and how often each is there."""
    if len(kinds) * _DENSE > n_kinds:
        counts = np.bincount(kinds, minlength=n_kinds)
        found = np.flatnonzero(counts)
        return found, counts[found]
    return np.unique(kinds, return_counts=True)

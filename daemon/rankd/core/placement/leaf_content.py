"""The kinds of a leaf's jobs, how many of each there are, and their amounts. Kept as long as the jobs are the same."""

from __future__ import annotations

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.kind_table import KindTable
from rankd.core.ranking.columns import IntArray

_DENSE = 8
"""If a leaf has more jobs than 1 / this of the kinds, they are counted in an array of all kinds."""


class LeafContent:
    """A leaf's jobs by kind. ``kinds`` int64 (n_own_kinds,): ascending. ``counts``: the number of jobs of each.

    ``most`` (n_types,): for each type, the largest amount that any of the kinds takes with its ``min_nodes``; columns
    as in the table of kinds. ``asked``: the sum of all jobs. Several states of the partition may share one object.
    """

    __slots__ = ("_of", "asked", "counts", "has_exclusive", "kinds", "most")

    def __init__(self, of: IntArray, table: KindTable) -> None:
        """Count the jobs. ``of``: the kind of each job, int64 (n_jobs,)."""
        self._of = of
        self.kinds, self.counts = _counted(of, len(table))
        self.asked: Resources = table.summed(self.kinds, self.counts)
        self.most: IntArray = table.most_of(self.kinds)
        self.has_exclusive = bool(table.exclusive[self.kinds].any())

    def is_of(self, kinds: IntArray, table: KindTable) -> bool:
        """Whether these jobs have the same number of each kind, in any order. ``kinds`` int64 (n_jobs,)."""
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
    """The distinct kinds, ascending, and the count of each."""
    if len(kinds) * _DENSE > n_kinds:
        counts = np.bincount(kinds, minlength=n_kinds)
        found = np.flatnonzero(counts)
        return found, counts[found]
    return np.unique(kinds, return_counts=True)

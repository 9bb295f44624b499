"""Which kinds of jobs a leaf has, how many of each, and what these ask for; kept as long as its jobs are the same."""

from __future__ import annotations

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.columns import IntArray

_DENSE = 8
"""Leaves with more jobs than an eighth of the kinds count in an array of all kinds."""


class LeafContent:
    """Of the jobs ``waiting``: their kinds, int64 (n_own_kinds,), ascending, and the number of jobs of each.

    ``most``: the most of each type that any of them takes with the fewest nodes, (n_types,), columns as the table
    of kinds has them. ``asked``: what all of them ask for.
    """

    __slots__ = ("asked", "counts", "has_exclusive", "kinds", "most", "waiting")

    def __init__(self, waiting: WaitingJobs, table: KindTable) -> None:
        self.waiting = waiting
        if len(waiting.kinds) * _DENSE > len(table):
            counts = np.bincount(waiting.kinds, minlength=len(table))
            self.kinds: IntArray = np.flatnonzero(counts)
            self.counts: IntArray = counts[self.kinds]
        else:
            self.kinds, self.counts = np.unique(waiting.kinds, return_counts=True)
        self.asked: Resources = table.summed(self.kinds, self.counts)
        self.most: IntArray = table.most_of(self.kinds)
        self.has_exclusive = bool(table.exclusive[self.kinds].any())

    def is_of(self, waiting: WaitingJobs) -> bool:
        """Whether these jobs are of the same kinds, one by one; then they are its jobs from now on."""
        kinds = waiting.kinds
        if kinds is not self.waiting.kinds and not np.array_equal(kinds, self.waiting.kinds):
            return False
        self.waiting = waiting
        return True

"""The kinds of a leaf's jobs, how many of each there are, and their amounts. Kept as long as the jobs are the same."""

from __future__ import annotations

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.placement.kind_table import KindTable
from rankd.core.ranking.columns import IntArray

_DENSE = 8
"""If a leaf has more jobs than 1 / this of the kinds, they are counted in an array of all kinds."""
_FEW_KINDS = 4096
"""The same if there are fewer kinds than this: then it takes less time than to sort two jobs."""


class LeafContent:
    """A leaf's jobs by kind. Several states of the partition may share one object."""

    __slots__ = ("_asked", "_counted", "_has_exclusive", "_most", "_of", "_table", "_tasks")

    def __init__(self, of: IntArray, table: KindTable, tasks: IntArray | None = None) -> None:
        """``of``: the kind of each job, ``tasks``: its tasks; int64 (n_jobs,). None: one each. Counted when needed."""
        self._of = of
        self._tasks = tasks
        self._table = table
        self._most: IntArray | None = None
        self._has_exclusive: bool | None = None
        self._counted: tuple[IntArray, IntArray] | None = None
        self._asked: Resources | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the jobs have been counted."""
        return self._counted is not None

    @property
    def kinds(self) -> IntArray:
        """The distinct kinds, int64 (n_own_kinds,), ascending."""
        return self._numbers()[0]

    @property
    def counts(self) -> IntArray:
        """The number of jobs of each of them, int64 (n_own_kinds,)."""
        return self._numbers()[1]

    def _numbers(self) -> tuple[IntArray, IntArray]:
        if self._counted is None:
            self._counted = _counted(self._of, len(self._table))
        return self._counted

    @property
    def asked(self) -> Resources:
        """The sum of all jobs."""
        if self._asked is None:
            kinds, counts = self._numbers()
            asked = counts if self._tasks is None else _summed(self._of, self._tasks, kinds)
            self._asked = self._table.summed(kinds, asked)
        return self._asked

    @property
    def most(self) -> IntArray:
        """For each type, the largest amount that any of the kinds takes with its ``min_nodes``, (n_types,)."""
        if self._most is None:
            self._most = self._table.most_of(self.kinds)
        return self._most

    @property
    def has_exclusive(self) -> bool:
        """Whether any of the kinds takes whole nodes."""
        if self._has_exclusive is None:
            self._has_exclusive = bool(self._table.exclusive[self.kinds].any())
        return self._has_exclusive

    def is_of(self, kinds: IntArray, table: KindTable, tasks: IntArray | None = None) -> bool:
        """Whether these jobs have the same number of each kind, in any order. ``kinds`` int64 (n_jobs,).

        Jobs with arrays among them, where ``tasks`` is not None, must also be in the same order.
        """
        known = self._of
        if tasks is not None or self._tasks is not None:
            return _is_equal(tasks, self._tasks) and np.array_equal(kinds, known)
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


def _is_equal(one: IntArray | None, other: IntArray | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)


def _summed(of: IntArray, tasks: IntArray, kinds: IntArray) -> IntArray:
    """The sum of the tasks of each of these kinds."""
    sums = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(sums, np.searchsorted(kinds, of), tasks)
    return sums


def _counted(kinds: IntArray, n_kinds: int) -> tuple[IntArray, IntArray]:
    """The distinct kinds, ascending, and the count of each."""
    if len(kinds) * _DENSE > n_kinds or n_kinds < _FEW_KINDS:
        counts = np.bincount(kinds, minlength=n_kinds)
        found: IntArray = counts.nonzero()[0]
        return found, counts[found]
    return np.unique(kinds, return_counts=True)

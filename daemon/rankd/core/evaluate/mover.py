"""Who moves between two rankings of the same jobs, in columns: a million jobs take part of a second.

:mod:`rankd.core.evaluate.diff` and :mod:`rankd.core.evaluate.whatif` say the same of the results of documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.evaluate.diff import Move
from rankd.core.evaluate.whatif import Owner
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.ranking import Ranking

NO_RANK = 0


class Places(NamedTuple):
    """The ranks and priorities that a ranking gives to jobs, each int64 (n_jobs,). Rank 0: the job is not ranked."""

    ranks: IntArray
    priorities: IntArray


class Owners(NamedTuple):
    """Who has the jobs: ``of_jobs`` int64 (n_jobs,) indexes ``names``, each (account, user).

    ``others``: by index, how many jobs each has besides these, such as running ones.
    """

    of_jobs: IntArray
    names: Sequence[tuple[str, str]]
    others: Mapping[int, int]


def places_of(ranking: Ranking, ids: IntArray) -> Places:
    """The places of all jobs of a pass; ``ids`` are those of its columns, ascending."""
    ranks = np.zeros(len(ids), dtype=np.int64)
    ranks[np.searchsorted(ids, ranking.ids)] = np.arange(1, len(ranking.ids) + 1)
    return Places(ranks, ranking.priorities.priorities)


def movers(before: Places, after: Places) -> IntArray:
    """The indices of the jobs whose rank differs, sorted by their rank in ``after``. Jobs without one are last."""
    moved = np.flatnonzero(before.ranks != after.ranks)
    ranks = after.ranks[moved]
    return moved[np.argsort(np.where(ranks == NO_RANK, np.iinfo(np.int64).max, ranks), kind="stable")]


def moves_of(ids: IntArray, before: Places, after: Places, which: IntArray) -> list[Move]:
    """The moves of the jobs with the indices ``which``, in that order."""
    columns = (ids, before.ranks, after.ranks, before.priorities, after.priorities)
    rows = zip(*(column[which].tolist() for column in columns), strict=True)
    return [_move(*row) for row in rows]


def _move(job: int, rank_before: int, rank_after: int, priority_before: int, priority_after: int) -> Move:
    is_ranked = NO_RANK not in (rank_before, rank_after)
    return Move(
        job=job,
        rank_before=rank_before or None,
        rank_after=rank_after or None,
        change=rank_after - rank_before if is_ranked else None,
        priority_before=priority_before,
        priority_after=priority_after,
    )


def owners_of(before: Places, after: Places, which: IntArray, owners: Owners) -> list[Owner]:
    """The moves of ``which`` by user and account, as :func:`rankd.core.evaluate.whatif.by_owner` gives them.

    ``which``: sorted by the rank in ``after``. Of two largest changes of the same size, the one of the earlier job is
    given.
    """
    which = which[(before.ranks[which] != NO_RANK) & (after.ranks[which] != NO_RANK)]
    if not len(which):
        return []
    changes, whose = after.ranks[which] - before.ranks[which], owners.of_jobs[which]
    size = len(owners.names)
    earlier, later = (np.bincount(whose[some], minlength=size) for some in (changes < 0, changes > 0))
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, whose, changes)
    largest = _largest(changes, whose, size)
    jobs = np.bincount(owners.of_jobs, minlength=size)
    rows = [
        Owner(
            user=owners.names[owner][1],
            account=owners.names[owner][0],
            jobs=int(jobs[owner]) + owners.others.get(owner, 0),
            earlier=int(earlier[owner]),
            later=int(later[owner]),
            mean_change=int(sums[owner]) / int(earlier[owner] + later[owner]),
            largest_change=int(largest[owner]),
        )
        for owner in np.unique(whose).tolist()
    ]
    return sorted(rows, key=lambda row: (-abs(row.mean_change), row.user or "", row.account or ""))


def _largest(changes: IntArray, whose: IntArray, size: int) -> IntArray:
    """Of each owner, the first change of the largest size, int64 (size,)."""
    sizes = np.zeros(size, dtype=np.int64)
    np.maximum.at(sizes, whose, np.abs(changes))
    firsts = np.flatnonzero(np.abs(changes) == sizes[whose])
    found = np.zeros(size, dtype=np.int64)
    found[whose[firsts[::-1]]] = changes[firsts[::-1]]  # the last assignment of an owner counts: its first change
    return found

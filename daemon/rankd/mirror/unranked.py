"""Jobs that the newest generation does not rank, for times in which no other comes: behind it, as they were submitted.

Their priorities are the lowest that there are, so that they go behind every ranked job of their partition wherever
priorities decide; among each other the earlier one has the higher priority. Fences, shares and quotas hold for
them as for all. Where a leaf's policy lets applications in, only those go on that it has let in before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from rankd.core.model.int32 import INT32_MIN
from rankd.core.ranking.columns import NO_GROUP, IntArray
from rankd.mirror.pending_table import PendingTable


class Unranked(NamedTuple):
    """Rows of the pending table and priorities, int64 (n,), first to run first."""

    rows: IntArray
    priorities: IntArray


NOTHING = Unranked(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def unranked_jobs(
    table: PendingTable, ranked: IntArray, filtering: Collection[int], running: Collection[int]
) -> Unranked:
    """Eligible jobs that are not in the rows ``ranked``.

    ``filtering``: leaves that may hold applications back; applications that are ranked, or ``running``, go on there.
    """
    left = table.is_pending & table.is_eligible
    left[ranked] = False
    rows = np.flatnonzero(left)
    if len(filtering):
        let_in = np.append(np.unique(table.applications[ranked]), [NO_GROUP, *running])
        held = np.isin(table.queues[rows], list(filtering)) & ~np.isin(table.applications[rows], let_in)
        rows = rows[~held]
    return Unranked(rows, INT32_MIN + np.arange(len(rows) - 1, -1, -1, dtype=np.int64))


def by_leaf(jobs: Unranked, table: PendingTable) -> Mapping[int, Unranked]:
    """The same leaf by leaf."""
    queues = table.queues[jobs.rows]
    order = np.argsort(queues, kind="stable")
    firsts = np.flatnonzero(np.diff(queues[order], prepend=-1))
    parts = np.split(order, firsts[1:]) if len(firsts) else []
    return {int(queues[part[0]]): Unranked(jobs.rows[part], jobs.priorities[part]) for part in parts}

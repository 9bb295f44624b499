"""Jobs that the newest generation does not rank. They are considered while the next generation is overdue, by id.

Their priorities are the lowest possible ones, so they come after every ranked job of their partition wherever
priorities decide. A smaller id has a higher priority. Fences, shares and quotas apply to them as to all jobs. If a
leaf's policy admits applications one by one, only applications that were admitted before are considered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from rankd.core.model.int32 import INT32_MIN
from rankd.core.ranking.columns import NO_GROUP, IntArray
from rankd.mirror.pending_columns import PendingColumns


class Unranked(NamedTuple):
    """Rows of the pending table and priorities, int64 (n,), first to run first."""

    rows: IntArray
    priorities: IntArray


NO_UNRANKED = Unranked(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def unranked_jobs(
    columns: PendingColumns, ranked: IntArray, filtering: Collection[int], running: Collection[int]
) -> Unranked:
    """Eligible jobs that are not in the rows ``ranked``.

    ``filtering``: leaves that may hold back applications. There, only jobs of ranked or ``running`` applications are
    included.
    """
    left = columns.is_pending & columns.is_eligible
    left[ranked] = False
    rows = np.flatnonzero(left)
    if len(filtering):
        admitted = np.append(np.unique(columns.applications[ranked]), [NO_GROUP, *running])
        held = np.isin(columns.queues[rows], list(filtering)) & ~np.isin(columns.applications[rows], admitted)
        rows = rows[~held]
    return Unranked(rows, INT32_MIN + np.arange(len(rows) - 1, -1, -1, dtype=np.int64))


def by_leaf(jobs: Unranked, columns: PendingColumns) -> Mapping[int, Unranked]:
    """The same jobs, by leaf."""
    queues = columns.queues[jobs.rows]
    order = np.argsort(queues, kind="stable")
    firsts = np.flatnonzero(np.diff(queues[order], prepend=-1))
    parts = np.split(order, firsts[1:]) if len(firsts) else []
    return {int(queues[part[0]]): Unranked(jobs.rows[part], jobs.priorities[part]) for part in parts}

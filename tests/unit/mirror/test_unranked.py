"""Jobs that the newest generation does not rank."""

import numpy as np

from rankd.core.model.int32 import INT32_MIN
from rankd.mirror.pending_columns import PendingColumns
from rankd.mirror.unranked import by_leaf, unranked_jobs
from rankd.store.feed.pending_kind import PendingBatch


def columns(*jobs):
    """Jobs as (queue, application, whether it is eligible), numbered from 1."""
    rows = [
        (id_, 1, queue, 1, application, 7, 0.0, None, eligible, None, None)
        for id_, (queue, application, eligible) in enumerate(jobs, start=1)
    ]
    return PendingColumns.of_batch(PendingBatch.of_rows(rows), np.zeros(len(rows), dtype=np.int64))


def found(table, ranked=(), filtering=(), running=()):
    return unranked_jobs(table, np.array(ranked, dtype=np.int64), filtering, running)


def test_eligible_jobs_that_are_not_ranked_come_by_id_below_every_priority():
    table = columns((2, -1, 1), (2, -1, 1), (3, -1, 0), (3, -1, 1))
    table.is_pending[0] = False
    jobs = found(table)
    assert jobs.rows.tolist() == [1, 3]
    assert jobs.priorities.tolist() == [INT32_MIN + 1, INT32_MIN]
    assert found(table, ranked=[1]).rows.tolist() == [3]


def test_a_leaf_that_holds_applications_back_lets_in_only_those_that_were_let_in_before():
    table = columns((2, 5, 1), (2, 5, 1), (2, 6, 1), (2, 7, 1), (2, -1, 1), (3, 6, 1))
    assert found(table, ranked=[0], filtering=[2], running=[7]).rows.tolist() == [1, 3, 4, 5]
    assert found(table, ranked=[0]).rows.tolist() == [1, 2, 3, 4, 5]


def test_jobs_are_listed_by_leaf_in_their_order():
    table = columns((3, -1, 1), (2, -1, 1), (3, -1, 1))
    leaves = by_leaf(found(table), table)
    assert {leaf: own.rows.tolist() for leaf, own in leaves.items()} == {2: [1], 3: [0, 2]}
    assert leaves[3].priorities.tolist() == [INT32_MIN + 2, INT32_MIN]
    assert by_leaf(found(table, ranked=[0, 1, 2]), table) == {}

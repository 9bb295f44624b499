"""Columns that grow at their end, or get rows in between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.mirror.pending_columns import PendingColumns, concatenated
from rankd.store.feed.pending_kind import PendingBatch


def columns(*ids, queue=2):
    rows = [(id_, 10 * id_, queue, 1, -1, 7, float(id_), None, id_ % 2, None, None) for id_ in ids]
    if not rows:
        return PendingColumns.empty()
    return PendingColumns.of_batch(PendingBatch.of_rows(rows), np.full(len(rows), 3, dtype=np.int64))


def test_a_batch_becomes_pending_rows():
    found = columns(1, 2)
    assert found.n_rows == 2
    assert (found.revisions.tolist(), found.kinds.tolist(), found.applications.tolist()) == ([10, 20], [3, 3], [-1, -1])
    assert (found.is_eligible.tolist(), found.is_pending.tolist()) == ([True, False], [True, True])


def test_no_rows_have_the_types_of_rows():
    assert PendingColumns.empty().n_rows == 0
    assert [column.dtype for column in PendingColumns.empty()] == [column.dtype for column in columns(1)]


@given(st.lists(st.sets(st.integers(1, 60), max_size=20), min_size=1, max_size=8))
def test_rows_come_before_the_row_of_their_number(parts):
    whole, known = PendingColumns.empty(), set()
    for part in parts:
        new = sorted(part - known)
        if not new:
            continue
        before = np.searchsorted(whole.ids, new)
        whole = whole.with_inserted(before, columns(*new))
        known |= part
        assert whole.ids.tolist() == sorted(known)
        assert whole.revisions.tolist() == [10 * id_ for id_ in sorted(known)]
        assert whole.is_pending.all()


def test_growing_at_the_end_copies_no_earlier_row():
    whole = columns(*range(1, 101)).with_inserted(np.array([100]), columns(101))
    grown = whole.with_inserted(np.array([101]), columns(102))
    assert np.shares_memory(whole.ids, grown.ids), "room was kept behind the rows"
    assert (whole.n_rows, grown.n_rows, grown.ids[-1]) == (101, 102, 102)


def test_rows_are_taken_as_copies_and_overwritten_in_place():
    whole = columns(1, 2, 3)
    taken = whole.take(np.array([2, 0]))
    whole.overwrite(np.array([0]), columns(1, queue=9))
    assert taken.ids.tolist() == [3, 1]
    assert taken.queues.tolist() == [2, 2]
    assert whole.queues.tolist() == [9, 2, 2]


@pytest.mark.parametrize("parts", [[(1, 2)], [(1,), (), (4, 5)]])
def test_parts_are_put_together(parts):
    joined = concatenated([columns(*part) for part in parts])
    assert joined.ids.tolist() == [id_ for part in parts for id_ in part]

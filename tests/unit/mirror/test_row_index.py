import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankd.mirror.row_index import RowIndex

IDS = st.sets(st.integers(1, 400), min_size=1, max_size=300).map(lambda ids: np.array(sorted(ids), dtype=np.int64))


@given(IDS, st.lists(st.integers(1, 300), max_size=4), st.lists(st.integers(-10, 900), min_size=1, max_size=200))
def test_rows_are_found_as_by_searching_while_a_column_grows(known, growth, wanted):
    index, layout, wanted = RowIndex(), 0, np.array(wanted, dtype=np.int64)
    for more in [0, *growth]:
        known = np.concatenate([known, known[-1] + np.arange(1, more + 1)])
        if more % 5 == 4:  # as after jobs have gone
            known, layout = known[::2], layout + 1
        rows = {int(id_): row for row, id_ in enumerate(known)}
        assert index.lookup(known, layout, wanted).tolist() == [rows.get(id_, -1) for id_ in wanted.tolist()]


def test_nothing_is_found_where_there_is_nothing():
    assert RowIndex().lookup(np.empty(0, dtype=np.int64), 0, np.arange(100)).tolist() == [-1] * 100

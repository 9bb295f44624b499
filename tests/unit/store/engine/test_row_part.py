import pytest

from rankd.store.engine.row_part import row_parts


@pytest.mark.parametrize(
    ("number", "sizes"), [(0, []), (1, [1]), (7, [1] * 7), (41, [32, 8, 1]), (300, [128, 128, 32, 8, *[1] * 4])]
)
def test_the_parts_are_all_rows_in_their_order_in_as_few_parts_as_the_sizes_allow(number, sizes):
    rows = [[n] for n in range(number)]
    parts = list(row_parts(rows, (128, 32, 8, 1)))
    assert [len(part) for part in parts] == sizes
    assert [row for part in parts for row in part] == rows

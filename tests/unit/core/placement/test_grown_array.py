import numpy as np
import pytest

from rankd.core.placement.grown_array import with_room


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_there_stays_and_the_rest_is_zero(order):
    array = np.array([[1, 2], [3, 4]])
    assert with_room(array, 2, order) is array
    grown = with_room(array, 5, order)
    assert len(grown) >= 5
    assert grown[:2].tolist() == array.tolist()
    assert not grown[2:].any()
    assert grown.flags[f"{order}_CONTIGUOUS"]


def test_an_array_is_seldom_copied():
    array, copies = np.zeros(0), 0
    for n_rows in range(1, 10_000):
        grown = with_room(array, n_rows)
        copies += grown is not array
        array = grown
    assert copies < 25

"""A bar adds up: its parts lie side by side, and their sum is the sum of the points."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.services.web.bar import WIDTH, bar, compared, extent

POINTS = st.floats(-1e6, 1e6)


def row(class_value, *points, **more):
    factors = [{"name": f"f{place}", "points": value} for place, value in enumerate(points)]
    return {"class_value": class_value, "override": None, "factors": factors, **more}


@given(st.integers(-1000, 1000), st.lists(POINTS, max_size=10))
def test_the_parts_add_up_and_stay_in_the_bar(class_value, points):
    one = row(class_value, *points)
    shape = bar(one, extent([one]))
    assert shape.total == pytest.approx(class_value + sum(points), abs=1e-6)
    assert all(part.x >= -0.02 and part.x + part.width <= WIDTH + 0.05 for part in shape.segments)
    for sign in (1, -1):
        side = sorted(part for part in shape.segments if part.width > 0 and part.points * sign > 0)
        ordered = sorted(side, key=lambda part: part.x)
        for left, right in pairwise(ordered):
            assert right.x == pytest.approx(left.x + left.width, abs=0.05)


def test_hidden_parts_have_no_bar():
    hidden = row(None)
    assert bar(hidden, (0.0, 1.0)) is None
    assert bar(row(1, 2.0, override="hidden"), (0.0, 1.0)) is None
    assert compared(hidden, row(1, 2.0)) is None


def test_what_separates_two_jobs_is_said_largest_first():
    assert compared(row(0, 1.0, 10.0), row(5, 1.001, 0.0)) == "f1 -10.00, class +5.00"
    assert compared(row(0, 1.0), row(0, 1.0)) is None

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.instant import shown_instant


def by_the_library(at):
    return datetime.fromtimestamp(at // 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


@pytest.mark.parametrize("at", [0, -1, -0.5, 951782400, 951868799.999, 4107542400, 253402300799, -62135596800])
def test_days_of_leap_years_and_the_ends_of_the_calendar(at):
    assert shown_instant(at) == by_the_library(at)


@given(st.floats(min_value=-62135596800, max_value=253402300799))
def test_any_instant_is_shown_as_the_library_does(at):
    assert shown_instant(at) == by_the_library(at)

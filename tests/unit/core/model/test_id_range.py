"""Ranges of ids: what people write, and what a database is asked."""

import pytest

from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.core.model.id_range import MOST_RANGES, apart, bounds, parse_range, written_range
from rankd.core.model.quantity import LARGEST


@pytest.mark.parametrize(
    ("text", "ids"),
    [("7-9", range(7, 10)), ("5-5", range(5, 6)), ("1-4000000000", range(1, 4_000_000_001)), ("17", None)]
    + [(text, None) for text in ("17_3", "17_[1-5]", "-3", "3-", "1-2-3", "a-b", "\N{ARABIC-INDIC DIGIT ONE}-2")],
)
def test_a_range_is_two_numbers(text, ids):
    assert parse_range(text) == ids
    assert ids is None or written_range(ids) == text


def test_a_range_that_ends_before_it_begins_is_an_error():
    with pytest.raises(Refused, match="9-7 ends before it begins") as caught:
        parse_range("9-7")
    assert caught.value.code == "bad_job_id"


def test_ids_above_the_largest_are_the_largest():
    assert parse_range(f"1-{'9' * 19}") == range(1, LARGEST + 1)
    assert bounds([parse_range(f"{'9' * 19}-{'9' * 19}")]) == [(LARGEST, LARGEST)]


def test_a_range_is_not_one_job():
    with pytest.raises(Refused, match="7-9 means several jobs; name one, such as 7"):
        parse_name("7-9")


def test_ranges_are_apart_from_names_each_once_and_not_too_many():
    assert apart(["7-9", 17, "18_3", "7-9"]) == ([17, "18_3"], [range(7, 10)])
    apart(f"{first}-{first}" for first in range(MOST_RANGES))
    with pytest.raises(Refused) as caught:
        apart(f"{first}-{first}" for first in range(MOST_RANGES + 1))
    assert caught.value.code == "too_many"


def test_ranges_that_touch_or_overlap_are_one():
    assert bounds([range(7, 10), range(1, 3), range(8, 9), range(10, 12)]) == [(1, 2), (7, 11)]

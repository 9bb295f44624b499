"""Sets of array indices, compared with Python's sets."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from rankd.core.errors import Refused
from rankd.core.model.index_set import (
    EMPTY,
    LARGEST_INDEX,
    MOST_RANGES,
    common,
    contains,
    count,
    each,
    of,
    parse,
    read,
    step_of,
    take,
    take_written,
    union,
    without,
    written,
)


@pytest.mark.parametrize(
    ("text", "indices", "normal"),
    [
        ("0-31", range(32), "0-31"),
        ("1,3,5,7", [1, 3, 5, 7], "1-7:2"),
        ("1-7:2", [1, 3, 5, 7], "1-7:2"),
        ("0-15:4", [0, 4, 8, 12], "0-12:4"),
        ("1,3,7-9", [1, 3, 7, 8, 9], "1,3,7-9"),
        ("9,1-3", [1, 2, 3, 9], "1-3,9"),
        ("0-8:2,1-9:2", range(10), "0-9"),
        ("0-10:5,1", [0, 1, 5, 10], "0-1,5,10"),
        ("7", [7], "7"),
        ("007", [7], "7"),
        ("5-5:3", [5], "5"),
        ("0-1:9,4194303", [0, LARGEST_INDEX], "0,4194303"),
    ],
)
def test_lists_are_read_as_slurm_writes_them(text: str, indices: range, normal: str) -> None:
    found = parse(text)
    assert list(each(found)) == list(indices)
    assert written(found) == normal
    assert list(each(read(normal))) == list(indices)


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", "a", "1-", "-1", "3-1", "0-9:0", "0-9:", "5:2", "1,1", "0-9,3", "0-8:2,0-9:3", "1 ,2", "\u0661"],
)
def test_a_list_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text)
    assert (refused.value.code, refused.value.field) == ("bad_array", "array")


@pytest.mark.parametrize("text", ["4194304", "0-4194304", "9" * 5000, "0-9:99999999"])
def test_an_index_above_the_largest_is_too_large(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text)
    assert (refused.value.code, refused.value.status) == ("array_too_large", 413)


def test_more_tasks_than_allowed_are_too_large() -> None:
    assert count(parse("0-99", 100)) == 100
    with pytest.raises(Refused, match="101 tasks; the most is 100"):
        parse("0-100", 100)


def test_more_ranges_than_can_be_stored_are_too_large() -> None:
    irregular, at = [], 0
    for place in range(MOST_RANGES + 1):
        at += 3 + place % 2
        irregular.append(f"{at}-{at + 1}")
    with pytest.raises(Refused, match="separate ranges"):
        parse(",".join(irregular))
    assert len(parse(",".join(irregular[:-1]))) == MOST_RANGES


def test_ranges_that_interleave_into_too_many_are_too_large() -> None:
    with pytest.raises(Refused) as refused:
        parse("0-4000000:7,1-4000000:11,2-4000000:77")
    assert refused.value.code in {"array_too_large", "bad_array"}


def _random_set(chance: random.Random, largest: int = 60) -> set[int]:
    found: set[int] = set()
    for _ in range(chance.randint(0, 4)):
        first = chance.randint(0, largest)
        found.update(range(first, chance.randint(first, largest) + 1, chance.randint(1, 7)))
    return found


@pytest.mark.parametrize("seed", range(400))
def test_operations_agree_with_those_of_sets(seed: int) -> None:
    chance = random.Random(seed)
    one, two = _random_set(chance), _random_set(chance)
    first, second = of(one), of(two)
    assert set(each(first)) == one
    assert list(each(without(first, second))) == sorted(one - two)
    assert list(each(common(first, second))) == sorted(one & two)
    assert list(each(union(first, second))) == sorted(one | two)
    assert count(first) == len(one)
    assert set(each(read(written(first)))) == one
    if one:
        assert set(each(parse(written(first)))) == one
    number = chance.randint(0, len(one) + 2)
    taken, left = take(first, number)
    assert list(each(taken)) == sorted(one)[:number]
    assert list(each(left)) == sorted(one)[number:]
    front, rest = take_written(written(first), number)
    assert (list(each(front)), rest) == (sorted(one)[:number], written(left))
    assert all(contains(first, index) == (index in one) for index in range(70))


def test_ranges_of_a_result_ascend_and_have_no_empty_one() -> None:
    chance = random.Random(1)
    for _ in range(300):
        found = without(of(_random_set(chance)), of(_random_set(chance)))
        assert all(found)
        assert all(a[-1] < b[0] for a, b in pairwise(found))


def test_a_million_tasks_are_a_few_ranges() -> None:
    whole = parse("0-999999")
    left = without(whole, parse("17,100-199,500000-600000:2"))
    assert written(left) == "0-16,18-99,200-499999,500001-599999:2,600001-999999"
    assert count(left) == 1_000_000 - 1 - 100 - 50_001
    assert written(take(left, 999)[1]) == "1100-499999,500001-599999:2,600001-999999"


def test_the_step_is_that_of_a_regular_list() -> None:
    assert step_of(parse("0-99:5")) == 5
    assert step_of(parse("1,3,7-9")) == 1
    assert step_of(parse("7")) == 1
    assert step_of(EMPTY) == 1

"""Every fault of a decoded value is found, each with its path."""

import math
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from rankd.core.mismatch import in_plain_words, mismatches, not_finite


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["a", "b"] = "a"
    count: int | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parts: list[Inner] = []
    named: dict[str, Inner] = {}


def paths(value, start="$"):
    return [problem.path for problem in mismatches(value, Outer, start)]


def test_all_faults_are_found_and_not_the_first_alone():
    value = {"nam": 1, "parts": [{"kind": "c"}, {"count": "x"}, 5], "named": {"k": {"more": 1}}}
    assert paths(value) == ["$.nam", "$.name", "$.parts[0].kind", "$.parts[1].count", "$.parts[2]", "$.named.k.more"]


def test_paths_begin_where_the_caller_says():
    assert paths({"nam": 1}, "") == ["nam", "name"]


def test_what_msgspec_accepts_has_no_fault():
    value = {"name": "n", "parts": [{"count": None}], "named": {}}
    assert msgspec.convert(value, Outer)
    assert paths(value) == []


def test_the_words_that_are_possible_are_listed():
    [problem] = mismatches({"name": "n", "parts": [{"kind": "c"}]}, Outer, "$")
    assert problem.message.endswith("; known: a, b")


def test_numbers_that_are_not_finite_are_found_at_any_depth():
    value = {"a": [1.0, math.nan], "b": {"c": -math.inf}, "d": True}
    assert [problem.path for problem in not_finite(value, "$")] == ["$.a[1]", "$.b.c"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Expected `float` > 0.0", "give a number above 0"),
        ("Expected `int | null` >= 1", "give a whole number of at least 1"),
        ("Expected `str` matching regex '^/'", "give an absolute path, such as /etc/rankd/prolog"),
        ("Expected `str` of length >= 1", "give a text of at least 1 characters"),
        ("Expected `int | null`, got `str`", "give a whole number, not a text"),
        ("Expected `array`, got `object`", "give a list, not a table of keys"),
        ("Invalid enum value 'x'", "Invalid enum value 'x'"),
    ],
)
def test_messages_about_values_are_in_plain_words(message, said):
    assert in_plain_words(message) == said


class Bounded(msgspec.Struct):
    half_life_s: Annotated[float, Meta(gt=0)] = 1.0
    prolog: Annotated[str, Meta(pattern="^/")] | None = None
    name: Annotated[str, Meta(min_length=1)] = "x"


def test_no_value_is_told_in_the_words_of_msgspec():
    found = mismatches({"half_life_s": 0, "prolog": "x", "name": ""}, Bounded, "")
    assert [problem.path for problem in found] == ["half_life_s", "prolog", "name"]
    assert all(problem.message.startswith("give a") for problem in found), found

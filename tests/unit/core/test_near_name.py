"""Suggestions for unknown names."""

import pytest

from rankd.core.near_name import LONGEST, MOST_COMPARED, cut, near_name, unknown


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("fairshar", ["age", "fairshare"], "fairshare"),
        ("BATHC", ["root.batch", "root.gpu"], "root.batch"),
        ("root.bathc", ["root.batch", "root.gpu"], "root.batch"),
        ("x", ["normal", "high"], None),
        ("", ["a"], None),
        ("a" * (LONGEST + 1), ["a" * LONGEST], None),
    ],
)
def test_the_name_that_differs_least_is_suggested_whatever_its_case(name, known, near):
    assert near_name(name, known) == near


def test_a_bounded_number_of_names_is_compared():
    others = [f"other{n:04}" for n in range(MOST_COMPARED)]
    assert near_name("fairshar", [*others[: MOST_COMPARED // 2], "fairshare"]) == "fairshare"
    assert near_name("fairshar1", [*others, "fairshare1"]) is None


def test_without_a_suggestion_the_message_lists_what_is_known():
    assert unknown("QoS", "hihg", ["normal", "high"]) == "unknown QoS 'hihg'; did you mean 'high'?"
    assert unknown("QoS", "zzz", []) == "unknown QoS 'zzz'; known: none"
    assert unknown("QoS", "q" * 500, ["normal"]).count("q") < 100


def test_a_cut_text_is_exactly_as_long_as_allowed():
    assert cut("a" * 80) == "a" * 80
    assert cut("a" * 81) == "a" * 77 + "..."

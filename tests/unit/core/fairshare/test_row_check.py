"""A list of associations is refused with all of its faults, in the order of its rows."""

import pytest

from rankd.core.fairshare.row_check import account_parents, find_problems
from rankd.core.model.association import Association as Row


def faults(*rows):
    return [problem.path for problem in find_problems(rows)]


def test_a_sound_list_has_no_fault():
    assert faults(Row(account="a"), Row(account="b", parent="a"), Row(account="b", user="ann", default=True)) == []


@pytest.mark.parametrize(
    ("rows", "paths"),
    [
        ([Row(account="a", shares=-1.0)], ["associations[0].shares"]),
        ([Row(account="a", usage=float("inf"))], ["associations[0].usage"]),
        ([Row(account="a", usage_at=float("nan"))], ["associations[0].usage_at"]),
        ([Row(account="")], ["associations[0].account"]),
        ([Row(account="a"), Row(account="a")], ["associations[1].account"]),
        ([Row(account="a", parent="b")], ["associations[0].parent"]),
        ([Row(account="a", parent="b"), Row(account="b", parent="a")], ["associations[0].parent"]),
        ([Row(account="root", parent="a"), Row(account="a")], ["associations[0].parent"]),
        ([Row(account="x", user="ann")], ["associations[0].account"]),
        ([Row(account="a"), Row(account="a", user="u"), Row(account="a", user="u")], ["associations[2].user"]),
        ([Row(account="a"), Row(account="a", user="u", parent="z")], ["associations[1].parent"]),
        ([Row(account="a", default=True)], ["associations[0].default"]),
    ],
)
def test_each_fault_is_found_where_it_is(rows, paths):
    assert faults(*rows) == paths


def test_all_faults_are_found_in_the_order_of_the_rows():
    rows = [Row(account="a", user="ann", shares=-1.0), Row(account="b", usage=-1.0), Row(account="b")]
    assert faults(*rows) == [
        "associations[0].shares", "associations[0].account", "associations[1].usage", "associations[2].account",
    ]  # fmt: skip


def test_a_user_has_one_default():
    rows = [Row(account="a"), Row(account="b"), Row(account="a", user="u", default=True)]
    assert faults(*rows, Row(account="b", user="u", default=True)) == ["associations[3].default"]


def test_the_first_row_of_an_account_says_its_parent():
    assert account_parents([Row(account="a"), Row(account="b", parent="a"), Row(account="b")]) == {
        "a": "root",
        "b": "a",
    }

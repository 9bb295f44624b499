"""Rows from outside: what is taken, and every fault with its row and column."""

import pytest

from rankd.core.adapter.input import (
    AssociationRow,
    FactorRow,
    GroupRow,
    Input,
    QosRow,
    Range,
    UsageRow,
    checked_input,
)
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import AdapterSettings


def take(kind, *rows, allowed=None, **settings):
    factor = "site" if kind == "factor" else None
    adapter = AdapterSettings(name="x", input=kind, adapter="file", factor=factor, **settings)
    return checked_input(rows, adapter, allowed or Range())


def faults(kind, *rows, **settings):
    with pytest.raises(ConfigurationError) as caught:
        take(kind, *rows, **settings)
    return [(problem.path, problem.message) for problem in caught.value.problems]


def test_texts_of_a_csv_and_values_of_a_json_give_the_same_input():
    texts = {"account": "a", "user": "u", "shares": "2.5", "priority": "7", "default": "yes", "parent": ""}
    values = {"account": "a", "user": "u", "shares": 2.5, "priority": 7, "default": True, "parent": None}
    assert take("associations", texts) == take("associations", values)
    row = AssociationRow(account="a", user="u", shares=2.5, priority=7, default=True)
    assert take("associations", texts) == Input(kind="associations", associations=(row,))


def test_every_kind_of_input():
    assert take("associations", {"account": "a", "shares": "Parent"}).associations[0].shares == "parent"
    assert take("usage", {"account": "a", "user": 7, "usage": "1e3", "usage_at": 5}).usage == (
        UsageRow(account="a", user="7", usage=1000.0, usage_at=5.0),
    )
    assert take("qos", {"name": "q", "priority": "5", "factor": 0.5}).qos == (QosRow(name="q", priority=5, factor=0.5),)
    assert take("groups", {"group": "g", "user": "u"}).groups == (GroupRow(group="g", user="u"),)
    found = take("factor", {"value": "0.5", "job": "12"}, {"value": 1, "user": "u"}, {"value": 0, "account": "a"})
    assert found.factor == "site"
    assert found.values == (
        FactorRow(value=0.5, job=12), FactorRow(value=1.0, user="u"), FactorRow(value=0.0, account="a"),
    )  # fmt: skip


def test_columns_may_have_other_names_there():
    row = {"project": "a", "uid": "u", "weight": 3, "mail": "u@example.org"}
    found = take("associations", row, columns={"account": "project", "user": "uid", "shares": "weight"})
    assert found.associations == (AssociationRow(account="a", user="u", shares=3.0),)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", -1, float("nan"), float("inf"), "many", True, "1e999"])
@pytest.mark.parametrize(("kind", "column"), [("associations", "shares"), ("usage", "usage"), ("qos", "usage_factor")])
def test_what_is_no_amount_is_refused(kind, column, value):
    row = {"account": "a", "user": "u", column: value} if kind != "qos" else {"name": "q", column: value}
    [(path, message)] = faults(kind, row)
    assert path == f"row 1.{column}"
    assert "is not a finite number of at least 0" in message


@pytest.mark.parametrize(
    ("kind", "row", "path", "message"),
    [
        ("associations", {"acount": "a"}, "row 1", "unknown column 'acount'; known: account, user, parent"),
        ("associations", {"user": "u"}, "row 1", "'account' is needed; there are: user"),
        ("associations", {"account": ""}, "row 1", "'account' is needed"),
        ("associations", {"account": "a\nb"}, "row 1.account", "is not a name"),
        ("associations", {"account": True}, "row 1.account", "True is not a name"),
        ("associations", {"account": "a", "default": "maybe"}, "row 1.default", "is not true or false"),
        ("associations", {"account": "a", "priority": "1.5"}, "row 1.priority", "is not a whole number"),
        ("usage", {"account": "a", "usage": 1}, "row 1", "'user' is needed"),
        ("qos", {"name": "q", "factor": 1.5}, "row 1.factor", "is not a number from 0 to 1"),
        ("qos", {"name": "q", "priority": -1}, "row 1.priority", "is not"),
        ("factor", {"value": 2, "job": 1}, "row 1.value", "is not a number from 0 to 1"),
        ("factor", {"value": 1, "job": 0}, "row 1.job", "is not"),
        ("factor", {"value": 1}, "row 1", "name a job; or an account, a user, or both"),
        ("factor", {"value": 1, "job": 1, "user": "u"}, "row 1", "name a job; or"),
    ],
)
def test_a_fault_is_told_with_its_row_and_column(kind, row, path, message):
    [(told_path, told)] = faults(kind, row)
    assert told_path == path
    assert message in told


def test_the_same_twice_is_refused():
    assert faults("usage", *[{"account": "a", "user": "u", "usage": 1}] * 2) == [
        ("row 2", "a, u is listed twice, first in row 1")
    ]
    assert faults("qos", {"name": "q"}, {"name": "q"}) == [("row 2", "q is listed twice, first in row 1")]
    assert len(take("associations", {"account": "a"}, {"account": "a", "user": "a"})) == 2


def test_all_faults_are_counted_and_the_first_twenty_told():
    told = faults("qos", *[{"name": "q", "priority": "x"}] * 30)
    assert len(told) == 21
    assert told[-1] == ("", "and 10 more")


def test_an_empty_tree_does_not_replace_a_full_one():
    assert faults("associations") == [("", "there are no rows; the last ones stay")]
    assert faults("qos") == [("", "there are no rows; the last ones stay")]
    assert len(take("groups")) == 0


def test_a_factor_with_another_range_takes_its_values():
    assert take("factor", {"value": -0.5, "job": 1}, allowed=Range(lowest=-1.0, highest=1.0)).values[0].value == -0.5


def test_a_column_that_the_input_does_not_have_is_told_before_any_row():
    assert faults("groups", columns={"shares": "x"}) == [
        ("columns", "'shares' is not a column of groups; known: group, user")
    ]

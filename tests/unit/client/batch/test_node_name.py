"""Nodes by their names: the constraint, the number of nodes, and what can't be kept."""

import pytest

from rankd.client.batch.node_name import NODE, Nodes, constraints_of, nodes_of
from rankd.core.errors import Refused
from rankd.core.placement import constraint
from rankd.core.placement.constraint import MAX_VALUES, check_constraints, parse_constraints

USUAL = Nodes(1, 1, is_given=False)


def given(least, most=None):
    return Nodes(least, most or least, is_given=True)


def refusal(function, *values):
    with pytest.raises(Refused) as caught:
        function(*values)
    assert caught.value.code == "usage"
    return caught.value.message


def test_it_is_the_label_that_every_node_has():
    assert constraint.NODE == NODE
    [term] = parse_constraints(constraints_of(None, "n[1-2]", None))
    assert term.holds({}, "n2")
    assert not term.holds({}, "n3")


@pytest.mark.parametrize(
    ("labels", "wanted", "unwanted", "text"),
    [
        (None, "n[01-03]", None, "rankd/node in (n01,n02,n03)"),
        (None, "n1,n1,login", None, "rankd/node in (n1,login)"),
        (None, None, "n[1,3]", "rankd/node notin (n1,n3)"),
        ("gpu=a100", "n1", "n2", "gpu=a100,rankd/node in (n1),rankd/node notin (n2)"),
        ("gpu", None, None, "gpu"),
        (None, None, None, None),
    ],
)
def test_lists_become_terms(labels, wanted, unwanted, text):
    assert constraints_of(labels, wanted, unwanted) == text
    check_constraints(text)


def test_long_lists_of_other_nodes_are_several_terms_and_of_wanted_ones_refused():
    text = constraints_of(None, None, f"n[1-{2 * MAX_VALUES + 1}]")
    check_constraints(text)
    assert len(parse_constraints(text)) == 3
    assert "256 are allowed" in refusal(constraints_of, None, "n[1-257]", None)


@pytest.mark.parametrize("text", ["", "n[1-", "n 1", "./file", "-n1", "n1)", "x" * 64])
def test_what_is_not_a_list_of_nodes_is_refused(text):
    assert "n[01-08" in refusal(constraints_of, None, text, None)


def test_a_node_that_is_wanted_and_unwanted_is_refused():
    assert "'n2' is in -w and in -x" in refusal(constraints_of, None, "n[1-2]", "n[2-3]")


def test_the_job_gets_exactly_the_nodes_that_are_named():
    assert nodes_of(None, USUAL) is USUAL
    assert nodes_of("n[1-3]", USUAL) == nodes_of("n[1-3]", given(3)) == given(3)
    assert "name 4, or write -N 3" in refusal(nodes_of, "n[1-3]", given(4))
    assert "name 4, or write -N 3" in refusal(nodes_of, "n[1-3]", given(2, 4))
    assert "write -N 3, or name fewer" in refusal(nodes_of, "n[1-3]", given(2))
    assert "write -N 3, or name fewer" in refusal(nodes_of, "n[1-3]", given(1, 3))

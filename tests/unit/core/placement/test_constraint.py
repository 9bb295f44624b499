"""Source of the syntax: Kubernetes, "Labels and Selectors", equality-based and set-based requirements."""

import pytest

from rankd.core.errors import Refused
from rankd.core.placement.constraint import (
    Requirement,
    check_constraints,
    parse_constraints,
    satisfied,
    shown_constraints,
)

LABELS = {"gpu": "a100", "rack": "r1", "zone.example.org/name": "east", "empty": ""}


def holds(text, labels=LABELS):
    return satisfied(parse_constraints(text), labels)


@pytest.mark.parametrize("text", [None, "", "   "])
def test_no_constraint_holds_everywhere(text):
    assert parse_constraints(text) == ()
    assert holds(text, {})


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("gpu=a100", [("gpu", "in", {"a100"})]),
        ("gpu==a100", [("gpu", "in", {"a100"})]),
        (" gpu  =  a100 ", [("gpu", "in", {"a100"})]),
        ("gpu!=a100", [("gpu", "notin", {"a100"})]),
        ("gpu=", [("gpu", "in", {""})]),
        ("gpu in (a100,h100)", [("gpu", "in", {"a100", "h100"})]),
        ("gpu in ( a100 , h100 )", [("gpu", "in", {"a100", "h100"})]),
        ("gpu in(a100)", [("gpu", "in", {"a100"})]),
        ("gpu notin (a100)", [("gpu", "notin", {"a100"})]),
        ("gpu", [("gpu", "exists", set())]),
        ("!gpu", [("gpu", "absent", set())]),
        ("! gpu", [("gpu", "absent", set())]),
        ("in", [("in", "exists", set())]),
        ("a=b,c in (d,e),!f", [("a", "in", {"b"}), ("c", "in", {"d", "e"}), ("f", "absent", set())]),
        ("zone.example.org/name=east", [("zone.example.org/name", "in", {"east"})]),
        ("x-1.y/A_b.C", [("x-1.y/A_b.C", "exists", set())]),
        (f"{'p' * 253}/{'k' * 63}={'v' * 63}", [(f"{'p' * 253}/{'k' * 63}", "in", {"v" * 63})]),
        ("k in ()", [("k", "in", {""})]),
        ("k in (a,,b)", [("k", "in", {"a", "", "b"})]),
        ("x in (a,b),y notin (c,d)", [("x", "in", {"a", "b"}), ("y", "notin", {"c", "d"})]),
    ],
)
def test_terms_are_read(text, terms):
    assert parse_constraints(text) == tuple(Requirement(key, how, frozenset(values)) for key, how, values in terms)


@pytest.mark.parametrize(
    "text",
    [
        "gpu=a100,", ",gpu", "a,,b", "=a100", "gpu=a b", "gpu=(a)", "gpu in a100", "gpu in (a100", "gpu in a100)",
        "gpu in (a b)", "gpu > 3", "gpu<3", "!", "!gpu=a", "-gpu", "gpu-", "gpu=-a", "gpu in (-a)", "gpu in ((a))",
        "gpu === a", "gpu!", "gpu = a = b", "gpü=a", "gpu=ä", "a b", "gpu not in (a)", "gpu=a\nrack=b;",
        "a/b/c", "/a", "a/", "A.b/c", "a..b/c", "-a/c", "a_b/c", "k" * 64,
        f"k={'v' * 64}", f"{'p' * 254}/k", f"k in ({'v' * 64})",
    ],
)  # fmt: skip
def test_anything_else_is_refused_and_the_term_is_named(text):
    with pytest.raises(Refused) as caught:
        parse_constraints(text)
    assert caught.value.code == "bad_constraints"
    assert caught.value.field == "constraints"
    assert "is not a constraint" in caught.value.message


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("gpu=a100", True), ("gpu=h100", False), ("gpu==a100", True), ("absent=x", False),
        ("gpu!=a100", False), ("gpu!=h100", True), ("absent!=x", True),
        ("gpu in (a100,h100)", True), ("gpu in (h100)", False), ("absent in (x)", False),
        ("gpu notin (a100,h100)", False), ("gpu notin (h100)", True), ("absent notin (x)", True),
        ("gpu", True), ("absent", False), ("!gpu", False), ("!absent", True), ("empty", True), ("empty=", True),
        ("absent=", False), ("gpu=A100", False), ("GPU", False),
        ("gpu=a100,rack=r1", True), ("gpu=a100,rack=r2", False), ("gpu,!absent,rack in (r1,r2)", True),
    ],
)  # fmt: skip
def test_a_node_meets_a_selector_as_in_kubernetes(text, met):
    assert holds(text) is met


def test_fewer_named_nodes_than_the_job_asks_for_are_refused():
    check_constraints("rankd/node in (n1,n2),gpu in (a)", 2)
    with pytest.raises(Refused, match=r"names 2 nodes \(-w\), but asks for 3: .* write -N 2") as caught:
        check_constraints("rankd/node in (n1,n2)", 3)
    assert (caught.value.code, caught.value.field) == ("bad_nodes", "nodes")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, ""),
        ("rankd/node in (vm)", "on vm"),
        ("gpu=a100,rankd/node in (n2,n1),rankd/node notin (n3)", "gpu=a100, on n1 or n2, not on n3"),
        ("rankd/node in (a,b,c,d,e)", "on a, b, c or 2 more"),
    ],
)
def test_named_nodes_are_shown_without_their_label(text, shown):
    assert shown_constraints(text) == shown

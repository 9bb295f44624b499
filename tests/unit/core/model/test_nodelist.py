import random

import pytest

from rankd.core.model.nodelist import fold, unfold


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["login"], "login"),
        ([f"n{n:02}" for n in range(1, 9)] + ["n11"], "n[01-08,11]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n09", "n10", "n11"], "n[09-11]"),
        (["n1", "n01", "n2"], "n[1-2,01]"),
        (["n3", "n1", "n2", "n2"], "n[1-3]"),
        (["b2", "a1", "b1", "a7"], "a[1,7],b[1-2]"),
        (["n1.site", "n2.site", "n1.other"], "n1.other,n[1-2].site"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["9", "10"], "10,9"),
        (["n10", "n9", "n011"], "n[9-10,011]"),
    ],
)
def test_fold_writes_ranges_of_one_width(names, folded):
    assert fold(names) == folded


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[01-03,07]", ["n01", "n02", "n03", "n07"]),
        ("a,n[8-11],b", ["a", "n8", "n9", "n10", "n11", "b"]),
        ("n[1-2].site", ["n1.site", "n2.site"]),
        ("n[3,1]", ["n3", "n1"]),
    ],
)
def test_unfold_keeps_the_order_and_the_zeros(expression, names):
    assert unfold(expression) == names


@pytest.mark.parametrize(
    "expression",
    ["n[", "n[]", "n[1-]", "n[-3]", "n[3-1]", "n[1", "n1]", "n[1]2[3]", "a,,b", ",a", "n[a]", "n[1,,2]", "a,"],
)
def test_unfold_refuses_what_is_no_node_list(expression):
    with pytest.raises(ValueError, match="write one"):
        unfold(expression)


def test_unfold_refuses_a_slip_of_the_pen_at_once():
    with pytest.raises(ValueError, match="more than 1000000 names"):
        unfold("n[1-99999999999]")


def test_folding_loses_no_name():
    shuffled = random.Random(7)
    for _ in range(200):
        names = {
            f"{shuffled.choice(['n', 'gpu', 'r1n'])}{shuffled.randrange(120):0{shuffled.choice([1, 3])}}"
            for _ in range(40)
        }
        assert set(unfold(fold(names))) == names
        assert len(unfold(fold(names))) == len(names)

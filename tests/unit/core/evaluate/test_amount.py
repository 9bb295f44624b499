"""Amounts of documents: in thousandths of cores, and each that cannot be read is noted with its path."""

from rankd.core.evaluate.amount import add, read_amounts


def test_amounts_are_read_and_zeros_left_out_unless_they_mean_something():
    given = {"vcore": "1500m", "memory": "1Gi", "gpu": 0}
    assert read_amounts(given, "$.used", []) == {"vcore": 1500, "memory": 2**30}
    assert read_amounts(given, "$.used", [], keep_zeros=True) == {"vcore": 1500, "memory": 2**30, "gpu": 0}


def test_each_amount_that_cannot_be_read_is_noted_and_the_others_are_read():
    problems = []
    assert read_amounts({"vcore": "x", "gpu": -1, "memory": 5}, "$.used", problems) == {"memory": 5}
    assert [problem.path for problem in problems] == ["$.used.vcore", "$.used.gpu"]


def test_amounts_are_added_in_place():
    total = {"vcore": 1}
    add(total, {"vcore": 2, "gpu": 1})
    assert total == {"vcore": 3, "gpu": 1}

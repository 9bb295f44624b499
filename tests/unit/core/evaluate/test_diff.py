import json

from rankd.config.evaluation import Evaluator
from rankd.core.evaluate.diff import Move, moves
from rankd.core.evaluate.document import decode


def result(*jobs):
    document = {"now": 100, "priority": {"policy": "class"}, "jobs": [{"id": i, "class_value": v} for i, v in jobs]}
    return Evaluator().evaluate(json.dumps(document).encode())


def test_whoever_keeps_the_rank_is_not_listed():
    assert moves(result(("a", 1), ("b", 0)), result(("a", 9), ("b", 8))) == []


def test_moves_are_by_the_later_rank_with_newcomers_and_leavers():
    found = moves(result(("a", 3), ("b", 2), ("gone", 1)), result(("a", 1), ("b", 2), ("new", 3)))
    assert [(move.job, move.rank_before, move.rank_after, move.change) for move in found] == [
        ("new", None, 1, None), ("a", 1, 3, 2), ("gone", 3, None, None),
    ]  # fmt: skip
    assert found[1] == Move(job="a", rank_before=1, rank_after=3, change=2, priority_before=3, priority_after=1)


def test_moves_are_the_same_if_only_ranks_are_computed():
    document = {
        "now": 100,
        "priority": {"weights": {"age": 10, "size": 50}},
        "nodes": [{"name": "n1", "capacity": {"vcore": 4}}],
        "jobs": [
            {"id": "a", "submitted_at": 5, "resources": {"vcore": 3}},
            {"id": "b", "submitted_at": 50, "resources": {"vcore": 1}, "held": True},
            {"id": "c", "submitted_at": 60, "resources": {"vcore": 4}},
            {"id": "d", "submitted_at": 1, "priority_class": "unknown"},
            {"id": "e", "submitted_at": 2, "resources": {"vcore": 1}},
        ],
    }
    other = document | {"priority": {"weights": {"age": 10, "size": -50}}}
    whole = [Evaluator().evaluate(json.dumps(one).encode()) for one in (document, other)]
    ranks = [Evaluator().ranks(decode(json.dumps(one).encode())) for one in (document, other)]
    assert moves(*ranks) == moves(*whole) != []
    assert [one.rejected for one in ranks] == [one.rejected for one in whole] != [[], []]

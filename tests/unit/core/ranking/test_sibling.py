"""Which key puts a queue before the next of its siblings."""

import pytest

from rankd.core.ranking.sibling import Sibling, ordered


def sibling(path, priority=0, share=0.0, **pending):
    return Sibling(path=path, priority=priority, share=share, pending=pending)


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        (sibling("b", 2), sibling("a", 1), "priority"),
        (sibling("b", 1, 0.1), sibling("a", 1, 0.2), "share"),
        (sibling("b", vcore=2), sibling("a", vcore=1), "pending"),
        (sibling("b", vcore=1, gpu=1), sibling("a", vcore=1), "pending"),
        (sibling("a", disk=1), sibling("b", disk=2), "name"),  # no disk in total: left out
    ],
)
def test_the_first_key_in_which_two_differ_decides(first, second, key):
    assert ordered([second, first], {"vcore": 4, "gpu": 4}, by_priority=True) == [
        (first.path, key),
        (second.path, None),
    ]


def test_disabled_priority_decides_nothing():
    found = ordered([sibling("a", 1, 0.2), sibling("b", 0, 0.1)], {}, by_priority=False)
    assert found == [("b", "share"), ("a", None)]


def test_no_siblings_have_no_order():
    assert ordered([], {}, by_priority=True) == []

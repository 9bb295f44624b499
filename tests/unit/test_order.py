"""Several workers begin with the longest tests, and each share is whole."""

import itertools

import order
import pytest


class Item:
    """A test of this module."""

    def __init__(self, module, number):
        self.nodeid = f"tests/{module}::test_{number}"


def items_of(**counts):
    return [
        Item(f"{folder}/test_{module}.py", number)
        for folder, modules in counts.items()
        for module, count in enumerate(modules)
        for number in range(count)
    ]


MANY = items_of(contract=[9, 9], integration=[3, 8, 5], system=[2, 7, 1, 4], unit=[30, 50, 11])


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_no_test_is_lost_and_every_share_begins_with_the_longest_modules(workers):
    ordered = order.spread(MANY, workers)
    assert sorted(id(item) for item in ordered) == sorted(map(id, MANY))
    first = 0
    for worker in range(workers):
        assert "/unit/" not in ordered[first].nodeid
        first += (len(MANY) - first) // (workers - worker)
    assert order.spread(MANY, workers) == ordered


def test_the_longest_module_is_first_and_modules_stay_together():
    ordered = [item.nodeid.partition("::")[0] for item in order.spread(MANY, 4)]
    assert ordered[0] == "tests/system/test_1.py"
    changes = sum(one != other for one, other in itertools.pairwise(ordered))
    assert changes <= 12 + 3, "short modules may be cut by the end of a share"


def test_tests_that_share_nothing_go_to_different_workers():
    pages = [Item("system/test_docs_run.py", number) for number in range(4)]
    ordered = order.spread(pages + items_of(unit=[40]), 4)
    assert [ordered[place] for place in range(0, 44, 11)] == pages


def test_fewer_tests_than_workers_are_all_there():
    assert [item.nodeid for item in order.spread(MANY[:1], 4)] == [MANY[0].nodeid]
    assert order.spread([], 4) == []


def test_long_modules_are_there():
    tests = order.ROOT
    assert [name for name in (*order.LONG, *order.APART) if not (tests / name).is_file()] == []

"""Which job is tried next."""

import numpy as np
import pytest
from builder import problem, shape, views

from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.traversal import Traversal

QUEUES = views(("root", {}), ("root.a", {}), ("root.b", {}))
TOTAL = {"vcore": 10_000}
SMALL, LARGE = shape(vcore=1000), shape(vcore=2000)


def walk(waiting, queues=QUEUES):
    state = PartitionState()
    state.update(problem(queues, waiting, []), TOTAL)
    return Traversal(state)


def rest(traversal):
    found = []
    while (turn := traversal.next()) is not None:
        found.append(turn.job)
    return found


def test_the_queue_whose_best_job_has_the_higher_priority_goes_first():
    assert rest(walk({1: [(1, SMALL, 5), (2, SMALL, 1)], 2: [(3, SMALL, 3)]})) == [1, 3, 2]


def test_a_queue_that_got_something_stands_behind_its_equal():
    traversal = walk({1: [(1, SMALL, 0), (2, SMALL, 0)], 2: [(3, SMALL, 0), (4, SMALL, 0)]})
    given = []
    while (turn := traversal.next()) is not None:
        given.append(turn.queue)
        traversal.started(turn.kind, {"vcore": 1000})
    assert given == [1, 2, 1, 2]


def test_a_blocked_kind_is_passed_in_its_leaf_alone():
    traversal = walk({1: [(1, SMALL, 5), (2, SMALL, 5), (3, LARGE, 5)], 2: [(4, SMALL, 1)]})
    first = traversal.next()
    traversal.block(first.queue, first.kind)
    assert rest(traversal) == [3, 4]


def test_a_kind_that_is_passed_everywhere_has_no_further_turn():
    traversal = walk({1: [(1, SMALL, 5), (3, LARGE, 5)], 2: [(4, SMALL, 1)]})
    first = traversal.next()
    passed = np.zeros(2, dtype=bool)
    passed[first.kind] = True
    traversal.pass_all(passed)
    assert rest(traversal) == [3]


def test_a_start_belongs_to_the_job_that_was_handed_out():
    with pytest.raises(LookupError):
        walk({1: [(1, SMALL, 0)]}).started(0, {})

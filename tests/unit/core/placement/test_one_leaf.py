"""A walk of one leaf, compared with the traversal of the tree that has this leaf alone."""

from random import Random

import numpy as np
import pytest
from builder import problem, shape, views

from rankd.core.placement.array_limit import ArrayLimits
from rankd.core.placement.one_leaf import OneLeaf
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.traversal import Traversal

QUEUES = views(("root", {}), ("root.a", {}), ("root.b", {}))
SHAPES = [shape(vcore=1000 * number) for number in range(1, 5)]
TOTAL = {"vcore": 10_000}


def state(waiting):
    own = PartitionState()
    own.update(problem(QUEUES, waiting, []), TOTAL)
    return own


def random_leaf(random):
    jobs = [(job, random.choice(SHAPES), -job) for job in range(1, random.randint(2, 12))]
    limits = {job: random.randint(0, 2) for job, _, _ in jobs if random.random() < 0.3}
    return state({2: jobs}), limits


def do(walk, random):
    """One step of a cycle: whatever it did to the walk."""
    turn = walk.next()
    match None if turn is None else random.choice(["start", "block", "pass", "go on"]):
        case "start":
            walk.started(turn.kind, {"vcore": 1000})
        case "block":
            walk.block(turn.queue, turn.kind)
        case "pass":
            walk.pass_rest()
            walk.pass_all(np.array([random.random() < 0.3 for _ in walk.always]))
    return turn, walk.always.tolist(), list(walk.limited)


@pytest.mark.parametrize("seed", range(40))
def test_a_leaf_that_has_all_jobs_is_walked_as_the_tree_is(seed):
    partition, limits = random_leaf(Random(seed))
    one = OneLeaf(partition.only_leaf, partition.kinds, ArrayLimits(limits))
    tree = Traversal(partition, ArrayLimits(limits))
    for step in range(Random(seed).randint(0, 12)):
        assert do(one, Random(f"{seed} {step}")) == do(tree, Random(f"{seed} {step}"))
    ours, theirs = one.rest_by_limit(), tree.rest_by_limit()
    for _ in range(12):
        assert ours.next() == theirs.next()
    assert ours.limited == theirs.limited


def test_two_leaves_with_jobs_are_walked_as_a_tree():
    small = SHAPES[0]
    assert state({1: [(1, small, 0)], 2: [(2, small, 0)]}).only_leaf is None
    assert state({2: [(2, small, 0)]}).only_leaf.view.path == "root.b"

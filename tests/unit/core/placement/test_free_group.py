"""Groups of nodes by their free amounts: no node has more free than the row of its group."""

import random

import numpy as np
from builder import kind, shape

from rankd.core.placement.free_group import MOST_GROUPS, largest_by_group
from rankd.core.placement.kind_table import KindTable


def test_cores_of_one_node_and_memory_of_another_are_not_one_nodes_room():
    free = np.array([[8, 0], [0, 64], [4, 1]])

    assert largest_by_group(free, np.array([2, 16])).tolist() == [[8, 1], [0, 64]]


def test_every_node_is_below_the_row_of_a_group():
    rng = random.Random(5)
    for _ in range(300):
        n_types = rng.randrange(1, 5)
        free = np.array([[rng.randrange(-2, 9) for _ in range(n_types)] for _ in range(rng.randrange(1, 40))])
        rows = largest_by_group(free, np.array([rng.randrange(1, 6) for _ in range(n_types)]))
        assert 1 <= len(rows) <= MOST_GROUPS
        assert all((node <= rows).all(axis=1).any() for node in free)


def test_without_nodes_nothing_is_free():
    assert largest_by_group(np.empty((0, 2), dtype=np.int64), np.array([1, 1])).max() < 0


def test_many_groups_become_one():
    free = np.array([[place >> bit & 1 for bit in range(5)] for place in range(32)])

    assert largest_by_group(free, np.ones(5, dtype=np.int64)).tolist() == [[1, 1, 1, 1, 1]]


def test_the_least_amount_asked_leaves_out_kinds_that_ask_for_nothing_of_the_type():
    kinds = KindTable([kind(shape(4000)), kind(shape(resources={"vcore": 1000, "memory": 2**30}))])

    assert kinds.least_asked() == {"vcore": 1000, "memory": 2**30}

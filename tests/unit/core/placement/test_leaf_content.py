"""What the jobs of a leaf are, counted by kind."""

import numpy as np
import pytest
from builder import kind, shape

from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.leaf_content import LeafContent

TABLE = KindTable([kind(shape(vcore=1)), kind(shape(vcore=5, nodes=4, min_nodes=2)), kind(shape(vcore=2))])


def content(*kinds, table=TABLE):
    return LeafContent(np.array(kinds, dtype=np.int64), table)


def test_kinds_are_counted_and_their_amounts_added_up():
    leaf = content(1, 0, 1)
    assert (leaf.kinds.tolist(), leaf.counts.tolist()) == ([0, 1], [1, 2])
    assert leaf.asked == {"vcore": 1 + 2 * 4 * 5}
    assert leaf.most.tolist() == [10]


@pytest.mark.parametrize("n_kinds", [3, 3000])
def test_the_same_kinds_in_another_order_are_the_same_content(n_kinds):
    table = KindTable([kind(shape(vcore=n + 1)) for n in range(n_kinds)])
    leaf = content(1, 0, 1, table=table)
    assert leaf.is_of(np.array([0, 1, 1]), table)
    assert not leaf.is_of(np.array([0, 0, 1]), table)
    assert not leaf.is_of(np.array([0, 1]), table)
    assert leaf.is_of(np.array([1, 1, 0]), table)


def test_exclusive_kinds_are_noticed():
    table = KindTable([kind(shape()), kind(shape(exclusive=True))])
    assert content(0, 1, table=table).has_exclusive
    assert not content(0, table=table).has_exclusive

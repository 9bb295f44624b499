"""What follows from a tree alone. Norm shares multiply down the tree (Slurm's "Classic Fairshare Algorithm")."""

import numpy as np

from rankd.core.fairshare.layout import fraction, sum_by_parent
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association

TREE = AccountTree.build(
    [
        Association(account="a", shares=3.0),
        Association(account="b", shares=1.0),
        Association(account="c", parent="a", shares="parent"),
        Association(account="empty", shares=4.0),
        Association(account="a", user="ann", shares=1.0),
        Association(account="c", user="cid", shares=1.0),
        Association(account="b", user="bob", shares=5.0),
    ]
)


def of(name, values):
    names = [*TREE.accounts, *TREE.users]
    return values[names.index(name)].item()


def test_norm_shares_are_the_product_of_the_fractions_on_the_path():
    norms = TREE.layout.shares_norm
    assert of("a", norms) == 3 / 8
    assert of("bob", norms) == 1 / 8
    assert of("ann", norms) == 3 / 8 / 2


def test_children_of_an_account_with_parent_shares_compete_one_level_up():
    parents = TREE.layout.share_parents
    assert of("cid", parents) == of("ann", parents) == list(TREE.accounts).index("a")
    assert of("cid", TREE.layout.shares_norm) == of("ann", TREE.layout.shares_norm)


def test_users_are_counted_where_they_compete():
    counts = TREE.layout.user_counts
    assert [of(name, counts) for name in ("a", "b", "c", "empty", "ann")] == [2, 1, 0, 0, 1]


def test_accounts_without_users_are_not_ranked():
    ranked = {node for level in TREE.layout.ranked_levels for node in level.tolist()}
    assert list(TREE.accounts).index("empty") not in ranked
    assert len(ranked) == 5


def test_a_sum_does_not_depend_on_the_order_of_its_numbers():
    values = np.array([0.1, 1e16, 0.2, -1e16 + 3, 0.3])
    turned = values[::-1].copy()
    parents = np.zeros(5, dtype=np.int64)
    assert sum_by_parent(values, parents, 1).tobytes() == sum_by_parent(turned, parents, 1).tobytes()


def test_a_fraction_of_nothing_is_0():
    assert fraction(np.array([1.0, 0.0, 2.0]), np.array([0.0, 0.0, 4.0])).tolist() == [0.0, 0.0, 0.5]

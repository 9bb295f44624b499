"""The account tree: what it refuses, and what it says about who is where."""

import math

import numpy as np
import pytest

from rankd.core.errors import ConfigurationError
from rankd.core.fairshare.algorithm import compute
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings

PHYSICS = Association(account="physics")


def user(account: str, name: str, **fields) -> Association:
    return Association(account=account, user=name, **fields)


def problems_of(*rows: Association) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as refused:
        AccountTree.build(rows)
    return {problem.path: problem.message for problem in refused.value.problems}


def test_nothing_at_all_is_a_root_without_users():
    tree = AccountTree.build([])
    assert (tree.accounts, tree.n_users) == (("root",), 0)
    for algorithm in ("fair_tree", "classic"):
        result = compute(tree, np.zeros(0), FairshareSettings(algorithm=algorithm))
        assert result.shares_norm.tolist() == result.usage_effective.tolist() == [1.0]
        assert np.isnan(result.fairshare).all()


def test_root_may_be_listed_and_is_one_node():
    tree = AccountTree.build([Association(account="root", shares=7.0), PHYSICS])
    assert tree.accounts == ("root", "physics")
    assert tree.rows.tolist() == [0, 1]


def test_rows_may_come_in_any_order():
    tree = AccountTree.build([user("optics", "ann"), Association(account="optics", parent="physics"), PHYSICS])
    assert tree.accounts == ("root", "physics", "optics")
    assert tree.parents.tolist() == [0, 0, 1, 2]
    assert tree.depths.tolist() == [0, 1, 2, 3]
    assert tree.rows.tolist() == [-1, 2, 1, 0]


def test_user_indices_follow_the_rows():
    tree = AccountTree.build([user("root", "zoe"), PHYSICS, user("physics", "ann")])
    assert tree.users == ("zoe", "ann")
    assert (tree.user_index("root", "zoe"), tree.user_index("physics", "ann")) == (0, 1)
    assert (tree.account_of(3), tree.user_of(3), tree.user_of(1)) == ("physics", "ann", None)
    assert tree.is_user.tolist() == [False, False, True, True]


def test_unknown_names_are_none():
    tree = AccountTree.build([PHYSICS])
    assert tree.user_index("physics", "ann") is None
    assert tree.default_account("ann") is None


def test_the_marked_account_is_the_default_and_else_the_first_listed():
    tree = AccountTree.build(
        [
            PHYSICS,
            Association(account="chemistry"),
            user("physics", "ann"),
            user("chemistry", "ann", default=True),
            user("chemistry", "bob"),
            user("physics", "bob"),
        ]
    )
    assert tree.default_account("ann") == "chemistry"
    assert tree.default_account("bob") == "chemistry"


def test_walk_shows_an_account_then_its_users_then_its_accounts_by_name():
    tree = AccountTree.build(
        [
            user("b", "zoe"),
            user("b", "ann"),
            Association(account="c", parent="b"),
            user("c", "eve"),
            Association(account="b"),
            Association(account="a"),
            user("root", "sam"),
        ]
    )
    shown = [(tree.account_of(node), tree.user_of(node)) for node in tree.walk()]
    assert shown == [
        ("root", None),
        ("root", "sam"),
        ("a", None),
        ("b", None),
        ("b", "ann"),
        ("b", "zoe"),
        ("c", None),
        ("c", "eve"),
    ]


def test_normalised_shares_are_the_product_down_the_tree():
    tree = AccountTree.build(
        [
            Association(account="physics", shares=3.0),
            Association(account="chemistry", shares=1.0),
            Association(account="optics", parent="physics", shares=2.0),
            user("physics", "ann", shares=6.0),
            user("optics", "bob"),
            user("optics", "eve", shares="parent"),
            user("chemistry", "sam", shares=0.0),
        ]
    )
    norm = {(tree.account_of(n), tree.user_of(n)): tree.layout.shares_norm[n] for n in tree.walk()}
    assert norm[("physics", None)] == 0.75
    assert norm[("physics", "ann")] == 0.75 * 0.75
    assert norm[("optics", "bob")] == norm[("optics", "eve")] == norm[("optics", None)] == 0.75 * 0.25
    assert norm[("chemistry", "sam")] == 0.0


def test_children_of_a_parent_account_are_siblings_of_its_siblings():
    tree = AccountTree.build(
        [
            Association(account="hidden", shares="parent"),
            Association(account="deeper", parent="hidden", shares="parent"),
            user("deeper", "ann", shares=3.0),
            user("root", "bob", shares=1.0),
        ]
    )
    assert tree.layout.share_parents.tolist() == [0, 0, 0, 0, 0]
    assert tree.of_users(tree.layout.shares_norm).tolist() == [0.75, 0.25]
    assert tree.depths.tolist() == [0, 1, 2, 3, 1]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_shares_and_usage_are_finite_and_not_negative(bad):
    found = problems_of(PHYSICS, user("physics", "ann", shares=bad, usage=bad))
    assert set(found) == {"associations[1].shares", "associations[1].usage"}
    assert all(str(bad) in message and "'ann'" in message for message in found.values())


def test_the_instant_of_usage_is_finite():
    assert set(problems_of(user("root", "ann", usage_at=math.inf))) == {"associations[0].usage_at"}


def test_an_orphan_is_refused_by_name():
    found = problems_of(Association(account="optics", parent="phisics"), PHYSICS)
    assert set(found) == {"associations[0].parent"}
    assert "'optics'" in found["associations[0].parent"]
    assert "'phisics'" in found["associations[0].parent"]


def test_a_cycle_is_one_problem_that_shows_the_way_round():
    found = problems_of(
        Association(account="leaf", parent="a"),
        Association(account="a", parent="b"),
        Association(account="b", parent="a"),
        Association(account="own", parent="own"),
    )
    assert set(found) == {"associations[1].parent", "associations[3].parent"}
    assert "a -> b -> a" in found["associations[1].parent"]
    assert "own -> own" in found["associations[3].parent"]


def test_a_long_cycle_is_told_briefly():
    ring = [Association(account=f"a{n}", parent=f"a{(n + 1) % 50}") for n in range(50)]
    assert len(problems_of(*ring)["associations[0].parent"]) < 200


def test_duplicates_are_refused():
    found = problems_of(PHYSICS, user("physics", "ann"), PHYSICS, user("physics", "ann", shares=2.0))
    assert set(found) == {"associations[2].account", "associations[3].user"}


def test_a_user_of_an_unknown_account_is_refused():
    assert "'nowhere'" in problems_of(user("nowhere", "ann"))["associations[0].account"]


def test_two_defaults_for_a_user_are_refused():
    found = problems_of(PHYSICS, user("physics", "ann", default=True), user("root", "ann", default=True))
    assert "'physics'" in found["associations[2].default"]
    assert "'root'" in found["associations[2].default"]


def test_an_account_is_nobodys_default():
    assert set(problems_of(Association(account="physics", default=True))) == {"associations[0].default"}


def test_a_users_parent_is_its_account():
    AccountTree.build([PHYSICS, user("physics", "ann", parent="physics"), user("physics", "bob", parent="root")])
    assert set(problems_of(PHYSICS, user("physics", "ann", parent="chemistry"))) == {"associations[1].parent"}


def test_root_has_no_parent_and_real_shares():
    found = problems_of(Association(account="root", parent="physics", shares="parent"), PHYSICS)
    assert set(found) == {"associations[0].parent", "associations[0].shares"}


def test_empty_names_are_refused():
    found = problems_of(Association(account=""), user("root", ""))
    assert {"associations[0].account", "associations[1].user"} <= set(found)


def test_all_problems_are_told_at_once_in_the_order_of_the_rows():
    with pytest.raises(ConfigurationError) as refused:
        AccountTree.build(
            [
                user("nowhere", "ann", shares=math.nan),
                Association(account="a", parent="b"),
                user("root", "bob", usage=-1.0),
            ]
        )
    paths = [problem.path for problem in refused.value.problems]
    assert sorted(paths[:2]) == ["associations[0].account", "associations[0].shares"]
    assert paths[2:] == ["associations[1].parent", "associations[2].usage"]


def test_a_chain_of_accounts_may_be_deeper_than_pythons_stack():
    chain = [
        Association(account="a0"),
        *(Association(account=f"a{n}", parent=f"a{n - 1}") for n in range(1, 3000)),
    ]
    tree = AccountTree.build([*reversed(chain), user("a2999", "ann"), user("a0", "bob")])
    assert tree.depths.max() == 3001
    result = compute(tree, np.array([1.0, 3.0]), FairshareSettings())
    assert tree.of_users(result.fairshare).tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    "usage", [np.zeros(2), np.zeros(0), np.array([math.nan]), np.array([math.inf]), np.array([-1.0])]
)
@pytest.mark.parametrize("algorithm", ["fair_tree", "classic"])
def test_usage_of_wrong_length_or_range_is_a_bug_of_the_caller(usage, algorithm):
    tree = AccountTree.build([user("root", "ann")])
    with pytest.raises(ValueError, match="usage"):
        compute(tree, usage, FairshareSettings(algorithm=algorithm))


@pytest.mark.parametrize("algorithm", ["fair_tree", "classic"])
def test_usage_whose_sum_is_no_number_is_refused(algorithm):
    tree = AccountTree.build([user("root", "ann"), user("root", "bob")])
    with pytest.raises(ValueError, match="sum"):
        compute(tree, np.full(2, 1.7e308), FairshareSettings(algorithm=algorithm))

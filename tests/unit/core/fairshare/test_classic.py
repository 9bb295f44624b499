"""Classic fair share: the published example, and its rules one by one."""

import math

import numpy as np
import pytest

from rankd.core.fairshare.algorithm import compute
from rankd.core.fairshare.classic import classic
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings

# https://slurm.schedmd.com/classic_fair_share.html, "Example" (figure 3)
PUBLISHED = [
    Association(account="A", shares=40.0),
    Association(account="D", shares=60.0),
    Association(account="B", parent="A", shares=30.0),
    Association(account="C", parent="A", shares=10.0),
    Association(account="E", parent="D", shares=25.0),
    Association(account="F", parent="D", shares=35.0),
    Association(account="B", user="user1"),
    Association(account="C", user="user2"),
    Association(account="C", user="user3"),
    Association(account="E", user="user4"),
    Association(account="F", user="user5"),
    # the rest of the machine's use, 0.3, so that the usages are parts of one whole
    Association(account="root", user="others", shares=0.0),
]
PUBLISHED_USAGE = np.array([0.2, 0.25, 0.0, 0.25, 0.0, 0.3])


def by_name(tree: AccountTree, values: np.ndarray) -> dict[str, float]:
    return {tree.user_of(node) or tree.account_of(node): float(values[node]) for node in tree.walk()}


def test_published_slurm_example():
    tree = AccountTree.build(PUBLISHED)
    result = classic(tree, PUBLISHED_USAGE)
    effective = {"A": 0.45, "B": 0.3875, "C": 0.3, "D": 0.25, "E": 0.25, "F": 0.1458}
    effective |= {"user1": 0.3875, "user2": 0.275, "user3": 0.15, "user4": 0.25, "user5": 0.1458}
    factors = {"user1": 0.408479, "user2": 0.022097, "user3": 0.125, "user4": 0.5}
    norm = by_name(tree, result.shares_norm)
    assert {name: norm[name] for name in ("user1", "user2", "user3", "user4", "user5")} == pytest.approx(
        {"user1": 0.3, "user2": 0.05, "user3": 0.05, "user4": 0.25, "user5": 0.35}
    )
    shown = by_name(tree, result.usage_effective)
    assert {name: shown[name] for name in effective} == pytest.approx(effective, abs=5e-5)
    got = by_name(tree, result.fairshare)
    assert {name: got[name] for name in factors} == pytest.approx(factors, abs=1e-6)
    # printed as 0.749154 there, from the exponent rounded to .1458 before
    assert got["user5"] == pytest.approx(0.749154, abs=1e-4)


def test_published_what_if_of_four_shares():
    """https://slurm.schedmd.com/classic_fair_share.html, "Example": with 4 shares user 2 would have 0.08."""
    rows = [Association(account="C", user="user2", shares=4.0) if row.user == "user2" else row for row in PUBLISHED]
    tree = AccountTree.build(rows)
    assert by_name(tree, classic(tree, PUBLISHED_USAGE).shares_norm)["user2"] == pytest.approx(0.08)


def test_published_effective_usage_of_a_user_with_the_accounts_shares():
    """The same, "FairShare=parent": normalised shares and effective usage of the parent, so one factor for all."""
    rows = [
        Association(account=row.account, user=row.user, shares="parent") if row.account == "C" and row.user else row
        for row in PUBLISHED
    ]
    tree = AccountTree.build(rows)
    result = classic(tree, PUBLISHED_USAGE)
    for column in (result.shares_norm, result.usage_effective, result.fairshare):
        shown = by_name(tree, column)
        assert shown["user2"] == shown["user3"] == shown["C"]


def test_dampening_divides_the_exponent():
    tree = AccountTree.build(PUBLISHED)
    plain = tree.of_users(classic(tree, PUBLISHED_USAGE).fairshare)
    settings = FairshareSettings(algorithm="classic", dampening=4.0)
    damped = tree.of_users(compute(tree, PUBLISHED_USAGE, settings).fairshare)
    assert damped == pytest.approx(plain**0.25)


def test_without_any_usage_everyone_with_shares_has_one():
    tree = AccountTree.build(PUBLISHED)
    result = classic(tree, np.zeros(6))
    assert tree.of_users(result.fairshare).tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_without_shares_there_is_no_fair_share():
    tree = AccountTree.build(
        [
            Association(account="a", shares=0.0),
            Association(account="a", user="x"),
            Association(account="root", user="y"),
        ]
    )
    assert tree.of_users(classic(tree, np.array([0.0, 1.0])).fairshare).tolist() == [0.0, 0.5]


def test_where_nobody_has_shares_the_effective_usage_is_the_accounts():
    tree = AccountTree.build(
        [
            Association(account="a"),
            Association(account="a", user="x", shares=0.0),
            Association(account="root", user="y"),
        ]
    )
    result = classic(tree, np.array([1.0, 3.0]))
    assert tree.of_users(result.usage_effective).tolist() == [0.25, 0.75]


def test_parent_shares_take_the_accounts_factor():
    tree = AccountTree.build(
        [
            Association(account="a"),
            Association(account="hidden", parent="a", shares="parent"),
            Association(account="a", user="x", shares="parent"),
            Association(account="hidden", user="y", shares="parent"),
            Association(account="hidden", user="z", shares=2.0),
            Association(account="a", user="w", shares=2.0),
            Association(account="root", user="v"),
        ]
    )
    result = classic(tree, np.array([5.0, 3.0, 2.0, 6.0, 16.0]))
    got, norm = by_name(tree, result.fairshare), by_name(tree, result.shares_norm)
    assert got["x"] == got["y"] == got["hidden"] == got["a"] == pytest.approx(2 ** (-0.5 / 0.5))
    assert norm["z"] == norm["w"] == 0.25
    # z: u = 2/32, pulled half way to its account's 16/32
    assert got["z"] == pytest.approx(2 ** (-(2 / 32 + (0.5 - 2 / 32) * 0.5) / 0.25))


def test_parent_shares_directly_under_root_take_the_whole_machines_factor():
    tree = AccountTree.build([Association(account="root", user="x", shares="parent")])
    assert classic(tree, np.array([7.0])).fairshare[1] == 0.5


def test_a_share_next_to_nothing_gives_zero():
    tree = AccountTree.build(
        [
            Association(account="root", user="x", shares=1e-300),
            Association(account="root", user="y", shares=1e10),
        ]
    )
    assert tree.of_users(classic(tree, np.array([1.0, 1.0])).fairshare)[0] == 0.0


def test_root_has_no_fair_share_and_nobody_a_level_fair_share():
    result = classic(AccountTree.build(PUBLISHED), PUBLISHED_USAGE)
    assert math.isnan(result.fairshare[0])
    assert (result.shares_norm[0], result.usage_effective[0]) == (1.0, 1.0)
    assert np.isnan(result.level_fairshare).all()
    assert not np.isnan(result.fairshare[1:]).any()

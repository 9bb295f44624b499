"""Fair Tree: published examples, and its rules one by one."""

import math

import numpy as np
import pytest

from rankd.core.fairshare.fair_tree import fair_tree
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association

# Accounts of flux-accounting's test data: src/fairness/weighted_tree/test/accounts_data/*.csv in
# https://github.com/flux-framework/flux-accounting; (account, user, shares, usage), user None for an account.
LEAVES_1 = [
    ("account1", "leaf.1.1", 10000, 100),
    ("account1", "leaf.1.2", 1000, 10),
    ("account1", "leaf.1.3", 100000, 10),
]
LEAVES_2 = [
    ("account2", "leaf.2.1", 10000, 10),
    ("account2", "leaf.2.2", 1000, 1),
    ("account2", "leaf.2.3", 100000, 1),
]
LEAVES_3 = [("account3", "leaf.3.1", 100, 0), ("account3", "leaf.3.2", 10, 1)]
ACCOUNTS = [("account1", None, 1000, 0), ("account2", None, 100, 0), ("account3", None, 10, 0)]

SMALL_TIE = [*ACCOUNTS, *LEAVES_1, *LEAVES_2, *LEAVES_3]
SMALL_NO_TIE = [
    *ACCOUNTS,
    ("account1", "leaf.1.1", 10000, 100),
    ("account1", "leaf.1.2", 1000, 11),
    ("account1", "leaf.1.3", 100000, 10),
    ("account2", "leaf.2.1", 100000, 8),
    ("account2", "leaf.2.2", 10000, 3),
    *LEAVES_3,
]
SMALL_TIE_ALL = [
    *ACCOUNTS[:2],
    ("account3", None, 10000, 0),
    *LEAVES_1,
    *LEAVES_2,
    ("account3", "leaf.3.1", 10000, 1000),
    ("account3", "leaf.3.2", 1000, 100),
    ("account3", "leaf.3.3", 100000, 100),
]
SMALL_TIE_DIFF_TYPE = [("root", "leaf.0.1", 100, 12), ACCOUNTS[0], ACCOUNTS[2], *LEAVES_1, *LEAVES_3]
SMALL_ZERO_SHARES = [
    *ACCOUNTS,
    *LEAVES_1,
    ("account2", "leaf.2.1", 0, 10),
    ("account2", "leaf.2.2", 0, 1),
    ("account2", "leaf.2.3", 100000, 1),
    *LEAVES_3,
]


def ranked(rows, parents=None):
    """The fair share of each user by name; rows as above."""
    tree, result = run(rows, parents)
    return dict(zip(tree.users, tree.of_users(result.fairshare).tolist(), strict=True))


def run(rows, parents=None):
    tree = AccountTree.build(
        [
            Association(
                account=account,
                user=user,
                shares=shares,
                parent=None if user else (parents or {}).get(account),
            )
            for account, user, shares, _ in rows
        ]
    )
    return tree, fair_tree(tree, np.array([usage for _, user, _, usage in rows if user], dtype=float))


def test_published_flux_tree_without_ties():
    # t/expected/print_hierarchy/small_no_tie.txt in flux-accounting (printed with six digits)
    assert ranked(SMALL_NO_TIE) == pytest.approx(
        {
            "leaf.1.1": 0.285714,
            "leaf.1.2": 0.142857,
            "leaf.1.3": 0.428571,
            "leaf.2.1": 0.714286,
            "leaf.2.2": 0.571429,
            "leaf.3.1": 1.0,
            "leaf.3.2": 0.857143,
        },
        abs=5e-7,
    )


def test_published_flux_tree_with_two_tied_accounts():
    # t/expected/print_hierarchy/small_tie.txt in flux-accounting
    assert ranked(SMALL_TIE) == {
        "leaf.1.1": 0.5,
        "leaf.1.2": 0.5,
        "leaf.1.3": 0.75,
        "leaf.2.1": 0.5,
        "leaf.2.2": 0.5,
        "leaf.2.3": 0.75,
        "leaf.3.1": 1.0,
        "leaf.3.2": 0.875,
    }


def test_published_flux_tree_with_all_accounts_tied():
    # t/expected/print_hierarchy/small_tie_all.txt in flux-accounting (printed with six digits)
    best = {"leaf.1.3", "leaf.2.3", "leaf.3.3"}
    expected = {user: 1.0 if user in best else 0.666667 for _, user, _, _ in SMALL_TIE_ALL if user}
    assert ranked(SMALL_TIE_ALL) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("rows", "order"),
    [
        (SMALL_TIE_DIFF_TYPE, ["leaf.3.1", "leaf.3.2", "leaf.0.1", "leaf.1.3", "leaf.1.2", "leaf.1.1"]),
        (
            SMALL_ZERO_SHARES,
            ["leaf.3.1", "leaf.3.2", "leaf.2.3", "leaf.1.3", "leaf.1.2", "leaf.1.1", "leaf.2.1", "leaf.2.2"],
        ),
    ],
)
def test_published_flux_order_is_never_contradicted(rows, order):
    # expected orders of src/fairness/weighted_tree/test/weighted_tree_test01.cpp in flux-accounting
    shares = ranked(rows)
    values = [shares[user] for user in order]
    assert values == sorted(values, reverse=True)


def test_user_tied_with_an_account_shares_the_rank_of_its_best_user():
    # where Slurm and Flux differ: https://slurm.schedmd.com/fair_tree.html, "Ties", second rule
    shares = ranked(SMALL_TIE_DIFF_TYPE)
    assert shares["leaf.0.1"] == shares["leaf.1.3"] == 4 / 6
    assert shares["leaf.1.1"] == shares["leaf.1.2"] == 2 / 6


def test_all_users_of_a_better_account_come_before_all_of_a_worse_one():
    # https://slurm.schedmd.com/fair_tree.html, "Introduction"
    shares = ranked([("a", None, 1, 0), ("b", None, 1, 0), ("a", "x", 1, 9), ("b", "y", 1, 10), ("b", "z", 9, 1)])
    assert shares == {"x": 1.0, "z": 2 / 3, "y": 1 / 3}


def test_without_any_usage_all_share_the_first_rank():
    rows = [("a", None, 1, 0), ("b", None, 2, 0), ("a", "x", 1, 0), ("b", "y", 5, 0), ("root", "z", 3, 0)]
    assert set(ranked(rows).values()) == {1.0}


def test_zero_shares_are_last_even_without_usage():
    tree, result = run([("root", "none", 0, 0), ("root", "some", 1, 100)])
    assert tree.of_users(result.level_fairshare).tolist() == [0.0, 1.0]
    assert tree.of_users(result.fairshare).tolist() == [0.5, 1.0]


def test_usage_below_a_billionth_is_none():
    _, result = run([("root", "x", 1, 9.9e-10), ("root", "y", 1, 1e-9)])
    assert result.level_fairshare[1] == math.inf
    assert result.level_fairshare[2] < math.inf


def test_parent_shares_rank_first_and_take_nothing_from_the_siblings_sum():
    tree, result = run([("root", "x", "parent", 90), ("root", "y", 1, 5), ("root", "z", 1, 5)])
    assert tree.of_users(result.level_fairshare).tolist() == [math.inf, 0.5 / 0.05, 0.5 / 0.05]
    assert tree.of_users(result.fairshare).tolist() == [1.0, 2 / 3, 2 / 3]
    assert tree.of_users(result.usage_effective).tolist() == [0.9, 0.05, 0.05]


def test_users_of_a_parent_account_compete_with_its_siblings():
    rows = [
        ("hidden", None, "parent", 0),
        ("hidden", "x", 1, 30),
        ("root", "y", 1, 10),
        ("hidden", "z", 2, 10),
    ]
    assert ranked(rows) == {"z": 1.0, "y": 2 / 3, "x": 1 / 3}
    _, result = run(rows)
    assert result.level_fairshare[1] == math.inf
    assert result.usage[1] == 40


def test_first_run_of_tied_accounts_continues_the_users_run_and_the_next_begins_after_all():
    rows = [
        ("a", None, 1, 0),
        ("b", None, 1, 0),
        ("root", "w", 1, 4),
        ("a", "a1", 3, 1),
        ("a", "a2", 1, 3),
        ("b", "b1", 3, 1),
        ("b", "b2", 1, 3),
        ("root", "v", 1, 4),
    ]
    assert ranked(rows) == {"w": 1.0, "v": 1.0, "a1": 1.0, "b1": 1.0, "a2": 2 / 6, "b2": 2 / 6}


def test_a_shared_rank_is_handed_down_through_accounts_that_have_no_users_of_their_own():
    rows = [("a", None, 1, 0), ("b", None, 1, 0), ("root", "w", 1, 4), ("b", "x", 1, 1), ("b", "y", 1, 3)]
    assert ranked(rows, parents={"b": "a"}) == {"w": 1.0, "x": 1.0, "y": 1 / 3}


def test_tied_accounts_in_merged_accounts_merge_again():
    rows = [
        ("a", None, 1, 0),
        ("b", None, 1, 0),
        ("c", None, 1, 0),
        ("d", None, 1, 0),
        ("c", "worse1", 1, 3),
        ("c", "better1", 1, 1),
        ("d", "worse2", 1, 3),
        ("d", "better2", 1, 1),
    ]
    shares = ranked(rows, parents={"c": "a", "d": "b"})
    assert shares == {"better1": 1.0, "better2": 1.0, "worse1": 0.5, "worse2": 0.5}


def test_an_empty_account_in_front_does_not_stop_a_run():
    rows = [("a", None, 1, 0), ("empty", None, 1, 0), ("root", "w", 1, 4), ("a", "x", 1, 4)]
    assert ranked(rows, parents={"empty": "a"}) == {"w": 1.0, "x": 1.0}


def test_ties_are_measured_against_the_first_of_the_run():
    ulp = 2.0**-52
    usages = [1.0, 1 + ulp, 1 + 2 * ulp, 1 + 3 * ulp]
    tree, result = run([("root", f"u{n}", 1, usage) for n, usage in enumerate(usages)])
    level = tree.of_users(result.level_fairshare)
    ahead, first = [], 0
    for at, value in enumerate(level):
        first = first if level[first] - value <= ulp * max(level[first], 1) else at
        ahead.append(first)
    assert 1 < len(set(ahead)) < 4
    assert tree.of_users(result.fairshare).tolist() == [(4 - n) / 4 for n in ahead]


def test_equal_numbers_in_another_order_tie():
    fractions = [0.1, 0.2, 0.3]
    rows = [("a", None, 1, 0), ("b", None, 1, 0)]
    rows += [("a", f"a{n}", 1, usage) for n, usage in enumerate(fractions)]
    rows += [("b", f"b{n}", 1, usage) for n, usage in enumerate(reversed(fractions))]
    shares = ranked(rows)
    assert [shares[f"a{n}"] for n in range(3)] == [shares[f"b{n}"] for n in (2, 1, 0)] == [1.0, 4 / 6, 2 / 6]


def test_accounts_with_equal_numbers_below_have_equal_usage():
    fractions = [0.1, 0.2, 0.3]
    rows = [("a", None, 1, 0), ("b", None, 1, 0)]
    rows += [(f"a{n}", None, 1, 0) for n in range(3)] + [(f"b{n}", None, 1, 0) for n in range(3)]
    rows += [(f"a{n}", f"xa{n}", 1, usage) for n, usage in enumerate(fractions)]
    rows += [(f"b{n}", f"xb{n}", 1, usage) for n, usage in enumerate(reversed(fractions))]
    tree, result = run(rows, parents={f"{above}{n}": above for above in "ab" for n in range(3)})
    assert result.usage[tree.accounts.index("a")] == result.usage[tree.accounts.index("b")]


def test_next_to_no_usage_among_very_much_is_infinitely_behind():
    assert ranked([("root", "x", 1, 1e-9), ("root", "y", 1, 1e305)]) == {"x": 1.0, "y": 0.5}


def test_root_has_no_fair_share_and_accounts_have_none():
    tree, result = run(SMALL_TIE)
    assert np.isnan(result.fairshare[: tree.n_accounts]).all()
    assert math.isnan(result.level_fairshare[0])
    assert (result.shares_norm[0], result.usage_effective[0], result.usage[0]) == (1.0, 1.0, 133.0)


def test_a_hundred_thousand_idle_users_are_all_first():
    tree = AccountTree.build([Association(account="root", user=f"u{n}") for n in range(100_000)])
    assert (tree.of_users(fair_tree(tree, np.zeros(tree.n_users)).fairshare) == 1.0).all()

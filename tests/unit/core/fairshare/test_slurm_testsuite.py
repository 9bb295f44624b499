"""The trees of Slurm's own test suite, with what its plugin must print there.

Source: https://github.com/SchedMD/slurm, testsuite/expect/test24.3 (classic, with ``FairShare=parent``) and test24.4
(fair tree); test24.1 is the tree of the classic document, see test_classic.py. Rows are
``account|user|shares|…`` as in ``sshare -P``; accounts come before what is in them.
"""

import math

import pytest

from rankd.core.fairshare.algorithm import compute
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings

# account, user, shares, normalised shares, raw usage, effective usage, fair share
CLASSIC = """
AccountA||40|0.266667|45|0.214286|0.572929
AccountB||30|0.200000|20|0.184524|0.527550
AccountB|User1|1|0.200000|20|0.184524|0.527550
AccountC||10|0.066667|25|0.142857|0.226431
AccountC|User2|1|0.033333|25|0.130952|0.065672
AccountC|User3|1|0.033333|0|0.071429|0.226431
AccountD||60|0.400000|25|0.119048|0.813594
AccountE||25|0.166667|25|0.119048|0.609507
AccountE|User4|1|0.166667|25|0.119048|0.609507
AccountF||35|0.233333|0|0.069444|0.813594
AccountF|User5|1|0.233333|0|0.069444|0.813594
AccountG||0|0.000000|30|0.142857|0.000000
AccountG|User6|0|0.000000|30|0.142857|0.000000
AccountH||50|0.333333|110|0.523810|0.336475
AccountH|UHRA1|parent|0.333333|20|0.523810|0.336475
AccountH|UHRA2|40|0.078431|20|0.196078|0.176777
AccountH|UHRA3|50|0.098039|25|0.238095|0.185749
AccountHTA||parent|0.333333|45|0.523810|0.336475
AccountHTA|UHTAStd1|parent|0.333333|10|0.523810|0.336475
AccountHTA|UHTAStd2|30|0.058824|10|0.131653|0.211966
AccountHTA|UHTAStd3|50|0.098039|25|0.238095|0.185749
"""
CLASSIC_PARENTS = {
    "AccountB": "AccountA", "AccountC": "AccountA", "AccountE": "AccountD", "AccountF": "AccountD",
    "AccountHTA": "AccountH",
}  # fmt: skip

# account, user, shares, raw usage, effective usage, fair share, level fair share
FAIR_TREE = """
root|u1|10|0|0.000000|1.000000|inf
root|u2|10|10|0.041667|0.666667|1.153846
aA||40|45|0.187500||1.025641
aAA||30|20|0.444444||1.687500
aAA|uAA1|1|20|1.000000|0.619048|1.000000
aAB||10|25|0.555556||0.450000
aAB|uAB1|1|25|1.000000|0.523810|0.500000
aAB|uAB2|1|0|0.000000|0.571429|inf
aB||60|25|0.104167||2.769231
aBA||25|25|1.000000||0.416667
aBA|uBA1|1|25|1.000000|0.714286|1.000000
aBB||35|0|0.000000||inf
aBB|uBB1|1|0|0.000000|0.761905|inf
aC||0|30|0.125000||0.000000
aC|uC1|0|30|1.000000|0.047619|0.000000
aD||50|110|0.458333||0.524476
aD|uD1|parent|20|0.181818|0.476190|inf
aD|uD2|40|20|0.181818|0.333333|1.294118
aD|uD3|50|25|0.227273|0.333333|1.294118
aDA||parent|45|0.409091||inf
aDA|uDA1|parent|10|0.090909|0.476190|inf
aDA|uDA2|30|10|0.090909|0.380952|1.941176
aDA|uDA3|50|25|0.227273|0.333333|1.294118
aE||10|0|0.000000||inf
aE|aE1|10|0|0.000000|1.000000|inf
aE|aE2|10|0|0.000000|1.000000|inf
aF||20|0|0.000000||inf
aF|uF1|10|0|0.000000|1.000000|inf
aF|uF2|20|0|0.000000|1.000000|inf
aG||8|20|0.083333||0.461538
aG|uG1|10|10|0.500000|0.190476|1.000000
aGA||10|10|0.500000||1.000000
aGA|uGA1|20|4|0.400000|0.190476|1.250000
aGA|uGA2|20|6|0.600000|0.095238|0.833333
"""
FAIR_TREE_PARENTS = {"aAA": "aA", "aAB": "aA", "aBA": "aB", "aBB": "aB", "aDA": "aD", "aGA": "aG"}


def split(table):
    return [line.split("|") for line in table.split("\n") if line]


def shown(lines, parents, usages, algorithm):
    """What is computed of each row, by (account, user)."""
    rows = [
        Association(
            account=account,
            user=user or None,
            parent=None if user else parents.get(account),
            shares=shares if shares == "parent" else float(shares),
            usage=0.0 if not user else float(usage),
        )
        for (account, user, shares, *_), usage in zip(lines, usages, strict=True)
    ]
    tree = AccountTree.build(rows)
    usage = tree.shares[tree.n_accounts :] * 0.0
    for index, row in enumerate(tree.of_users(tree.rows).tolist()):
        usage[index] = rows[row].usage
    result = compute(tree, usage, FairshareSettings(algorithm=algorithm))
    nodes = range(len(tree.parents))
    columns = (result.shares_norm, result.usage, result.usage_effective, result.fairshare, result.level_fairshare)
    return {(tree.account_of(n), tree.user_of(n) or ""): [float(column[n]) for column in columns] for n in nodes}


def test_classic_with_parent_shares_is_slurms():
    lines = split(CLASSIC)
    found = shown(lines, CLASSIC_PARENTS, [line[4] for line in lines], "classic")
    assert found["root", ""][:3] == [1.0, 210.0, 1.0]
    for account, user, _, *expected in lines:
        assert found[account, user][:4] == pytest.approx([float(text) for text in expected], abs=5e-7)


def test_fair_tree_with_parent_shares_and_nested_ties_is_slurms():
    """But for uD2, which ties with uD3 and uDA3 on paper: 40 shares and 20 used against 50 and 25.

    Slurm prints 0.238095 for it, 5 of 21, and its test says that digits are lost there; here they tie.
    """
    lines = split(FAIR_TREE)
    found = shown(lines, FAIR_TREE_PARENTS, [line[3] for line in lines], "fair_tree")
    assert found["root", ""][1:3] == [240.0, 1.0]
    for account, user, _, usage, effective, fairshare, level in lines:
        expected = [float(usage), float(effective), float(fairshare or "nan"), float(level)]
        assert found[account, user][1:] == pytest.approx(expected, abs=5e-7, nan_ok=True)
    assert math.isclose(found["aD", ""][0], 0.240385, abs_tol=5e-7)

"""Fair share: the vectorised algorithms against slow scalar ones, and what must hold for every tree.

The references follow the definition word by word: sets of siblings are sorted, cut into runs, visited depth
first. Shares and usages are whole numbers (and one power of two below the threshold), so that every sum is
exact in any order and equality can be asked for bit for bit; they are small, so that most trees have ties.
"""

import math
from fractions import Fraction

import msgspec
import numpy as np
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.core.fairshare.algorithm import compute
from rankd.core.fairshare.classic import classic
from rankd.core.fairshare.fair_tree import fair_tree
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings

MANY = settings(max_examples=300, deadline=None)
FEWER = settings(max_examples=100, deadline=None)
SHARES = st.sampled_from([1, 1, 1, 2, 3, 0, "parent"])
BELOW_THRESHOLD = 2.0**-31
USAGES = st.sampled_from([0, 0, 1, 1, 2, 3, 4, 6, BELOW_THRESHOLD])
WHOLE = st.integers(0, 6)
Key = tuple[str, str | None]


@st.composite
def tree_rows(draw, usages=USAGES, max_accounts=7, max_users=14):
    """Rows of a random tree, its accounts anywhere under each other, some of them empty."""
    rows = []
    names = ["root"]
    for number in range(draw(st.integers(0, max_accounts))):
        parent = draw(st.sampled_from(names))
        names.append(f"a{number}")
        rows.append(Association(account=names[-1], parent=parent, shares=draw(SHARES)))
    for number in range(draw(st.integers(1, max_users))):
        account = draw(st.sampled_from(names))
        usage = float(draw(usages))
        rows.append(Association(account=account, user=f"u{number}", shares=draw(SHARES), usage=usage))
    return rows


def usage_of(tree: AccountTree, rows) -> np.ndarray:
    """Usage by user index."""
    return np.array([rows[row].usage for row in tree.of_users(tree.rows)])


def by_key(tree: AccountTree, values) -> dict[Key, float]:
    nodes = range(len(tree.parents))
    return {(tree.account_of(node), tree.user_of(node)): float(values[node]) for node in nodes}


def fairshares(rows, algorithm="fair_tree") -> dict[Key, float]:
    """Fair share of all users."""
    tree = AccountTree.build(rows)
    result = compute(tree, usage_of(tree, rows), FairshareSettings(algorithm=algorithm))
    return {key: value for key, value in by_key(tree, result.fairshare).items() if key[1]}


class Node:
    """An entry with its children; ``siblings`` are set by :func:`plant`: the set that it is compared in."""

    def __init__(self, row: Association) -> None:
        self.row = row
        self.key = (row.account, row.user)
        self.is_user = row.user is not None
        self.is_parent = row.shares == "parent"
        self.children: list[Node] = []
        self.siblings: list[Node] = []
        self.share_parent: Node | None = None

    def usage(self) -> float:
        return self.row.usage if self.is_user else sum(child.usage() for child in self.children)

    def competitors(self) -> list["Node"]:
        """Its children, and in the place of a parent account's own children theirs."""
        found = []
        for child in self.children:
            found.append(child)
            if child.is_parent and not child.is_user:
                found.extend(child.competitors())
        return found

    def has_users(self) -> bool:
        if self.is_user:
            return True
        return not self.is_parent and any(child.has_users() for child in self.competitors())


def plant(rows) -> tuple[Node, list[Node]]:
    root = Node(Association(account="root"))
    accounts = {"root": root} | {row.account: Node(row) for row in rows if row.user is None}
    users = [Node(row) for row in rows if row.user is not None]
    for node in [*accounts.values(), *users]:
        if node is not root:
            above = node.row.account if node.is_user else node.row.parent
            accounts[above].children.append(node)
    for account in accounts.values():
        if not account.is_parent:
            siblings = account.competitors()
            for child in siblings:
                child.siblings, child.share_parent = siblings, account
    return root, [*list(accounts.values())[1:], *users]


def shares_fraction(node: Node) -> float:
    total = float(sum(sibling.row.shares for sibling in node.siblings if not sibling.is_parent))
    return 0.0 if node.is_parent or total == 0 else node.row.shares / total


def level_fairshare(node: Node) -> float:
    if node.is_parent:
        return math.inf
    if node.row.shares == 0:
        return 0.0
    if node.usage() < 1e-9:
        return math.inf
    # a parent account's usage is in the sum already, as its users'
    usages = [sibling.usage() for sibling in node.siblings if sibling.is_user or not sibling.is_parent]
    return shares_fraction(node) / (node.usage() / sum(usages))


def tied(a: float, b: float) -> bool:
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= 2**-52 * max(abs(a), abs(b), 1)


class Ranking:
    """r starts at N; a run of k tied users all get r/N, then r -= k."""

    def __init__(self, n_users: int) -> None:
        self.n_users = n_users
        self.left = n_users
        self.current = n_users
        self.fairshare: dict[Key, float] = {}

    def visit(self, siblings: list[Node], continues: bool) -> None:
        ordered = sorted((n for n in siblings if n.has_users()), key=level_fairshare, reverse=True)
        while ordered:
            first = level_fairshare(ordered[0])
            run = [ordered.pop(0)]
            while ordered and tied(first, level_fairshare(ordered[0])):
                run.append(ordered.pop(0))
            self.visit_run(run, continues)
            continues = False

    def visit_run(self, run: list[Node], continues: bool) -> None:
        users = [node for node in run if node.is_user]
        if users:
            if not continues:
                self.current = self.left
            for user in users:
                self.fairshare[user.key] = self.current / self.n_users
            self.left -= len(users)
        merged = [child for node in run if not node.is_user for child in node.competitors()]
        if merged:
            self.visit(merged, continues or bool(users))


def slow_fair_tree(rows) -> tuple[dict[Key, float], dict[Key, float]]:
    root, nodes = plant(rows)
    ranking = Ranking(sum(node.is_user for node in nodes))
    ranking.visit(root.competitors(), continues=False)
    return ranking.fairshare, {node.key: level_fairshare(node) for node in nodes}


def slow_classic(rows, dampening: float) -> dict[Key, float]:
    root, nodes = plant(rows)
    total = root.usage()

    def normalised(node: Node) -> float:
        if node is root:
            return 1.0
        above = normalised(node.share_parent)
        return above if node.is_parent else above * shares_fraction(node)

    def effective(node: Node) -> float:
        if node is root:
            return 1.0
        own = node.usage() / total if total else 0.0
        if node.share_parent is root:
            return own
        above = effective(node.share_parent)
        if node.is_parent or not any(n.row.shares for n in node.siblings if not n.is_parent):
            return above
        return own + (above - own) * shares_fraction(node)

    def factor(node: Node) -> float:
        if node.is_parent:
            return factor(node.share_parent)
        norm = normalised(node)
        return 0.0 if norm == 0 else 2 ** (-effective(node) / (norm * dampening))

    return {node.key: factor(node) for node in nodes}


LEVEL_BY_LEVEL, NODE_BY_NODE = 0, math.inf


@given(tree_rows(), st.sampled_from([LEVEL_BY_LEVEL, NODE_BY_NODE]))
@settings(max_examples=effort(500, 1500), deadline=None)
def test_fair_tree_is_the_slow_one_bit_for_bit_whichever_way_it_is_walked(rows, few_per_level):
    tree = AccountTree.build(rows)
    result = fair_tree(tree, usage_of(tree, rows), few_per_level=few_per_level)
    ranks, levels = slow_fair_tree(rows)
    assert {key: value for key, value in by_key(tree, result.fairshare).items() if key[1]} == ranks
    assert {key: value for key, value in by_key(tree, result.level_fairshare).items() if key in levels} == levels


@given(tree_rows(), st.sampled_from([0.5, 1.0, 3.0]))
@MANY
def test_vectorised_classic_is_the_slow_one(rows, dampening):
    tree = AccountTree.build(rows)
    got = by_key(tree, classic(tree, usage_of(tree, rows), dampening).fairshare)
    for key, expected in slow_classic(rows, dampening).items():
        assert math.isclose(got[key], expected, rel_tol=1e-12), key


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
@MANY
def test_chains_of_nearly_equal_values_are_cut_as_one_by_one(steps):
    # level fair shares a few units of the last place apart: runs drift away from their first
    usages = (2**20 + np.cumsum(steps) * 2.0**-33).tolist()
    rows = [Association(account="root", user=f"u{n}", usage=usage) for n, usage in enumerate(usages)]
    tree, expected = AccountTree.build(rows), slow_fair_tree(rows)[0]
    for few_per_level in (LEVEL_BY_LEVEL, NODE_BY_NODE):
        found = by_key(tree, fair_tree(tree, usage_of(tree, rows), few_per_level=few_per_level).fairshare)
        assert {key: value for key, value in found.items() if key[1]} == expected


@given(tree_rows(usages=st.floats(0, 1e300), max_accounts=12, max_users=40))
@MANY
def test_both_ways_of_walking_give_the_same_bits(rows):
    tree = AccountTree.build(rows)
    first, second = (
        fair_tree(tree, usage_of(tree, rows), few_per_level=way).fairshare for way in (LEVEL_BY_LEVEL, NODE_BY_NODE)
    )
    assert np.array_equal(first, second, equal_nan=True)


@given(tree_rows(usages=st.floats(0, 1e9)), st.randoms(use_true_random=False))
@MANY
def test_order_of_rows_changes_no_bit(rows, random):
    shuffled = rows.copy()
    random.shuffle(shuffled)
    for algorithm in ("fair_tree", "classic"):
        assert fairshares(rows, algorithm) == fairshares(shuffled, algorithm)


@given(tree_rows(usages=WHOLE), st.integers(1, 1000))
@MANY
def test_the_unit_of_usage_does_not_matter(rows, unit):
    scaled = [msgspec.structs.replace(row, usage=row.usage * unit) for row in rows]
    for algorithm in ("fair_tree", "classic"):
        assert fairshares(rows, algorithm) == fairshares(scaled, algorithm)


@given(tree_rows(usages=WHOLE), st.data())
@MANY
def test_more_usage_never_raises_the_users_own_fair_share(rows, data):
    users = [at for at, row in enumerate(rows) if row.user]
    at = data.draw(st.sampled_from(users))
    more = rows.copy()
    more[at] = msgspec.structs.replace(rows[at], usage=rows[at].usage + data.draw(st.integers(1, 6)))
    key = (rows[at].account, rows[at].user)
    assert fairshares(more)[key] <= fairshares(rows)[key]
    assert fairshares(more, "classic")[key] <= fairshares(rows, "classic")[key] * (1 + 1e-12)


@given(tree_rows(usages=WHOLE))
@MANY
def test_fair_tree_values_are_nths_and_the_best_is_one(rows):
    values = list(fairshares(rows).values())
    ranks = {Fraction(value).limit_denominator(1000) * len(values) for value in values}
    assert max(values) == 1.0
    assert all(rank.denominator == 1 and 1 <= rank <= len(values) for rank in ranks)
    # each run takes as many ranks as it has users: as many users are at or before a rank as it says
    for value in values:
        ahead = sum(other > value for other in values)
        assert value == (len(values) - ahead) / len(values)


@given(tree_rows(usages=WHOLE), st.integers(1, 3), st.lists(st.tuples(SHARES, WHOLE), min_size=1, max_size=5))
@MANY
def test_tied_accounts_rank_as_if_they_were_one(rows, shares, members):
    def account(name: str, of: float) -> list[Association]:
        return [Association(account=name, shares=of)]

    def users(name: str, prefix: str) -> list[Association]:
        listed = enumerate(members)
        return [Association(account=name, user=f"{prefix}{n}", shares=s, usage=float(u)) for n, (s, u) in listed]

    apart = [*rows, *account("x", shares), *account("y", shares), *users("x", "x"), *users("y", "y")]
    merged = [*rows, *account("z", 2 * shares), *users("z", "x"), *users("z", "y")]
    names = {user: value for (_, user), value in fairshares(merged).items()}
    assert {user: value for (_, user), value in fairshares(apart).items()} == names


@given(tree_rows(), st.data(), st.sampled_from([0, "parent"]))
@FEWER
def test_an_empty_account_without_shares_changes_nothing(rows, data, shares):
    parent = data.draw(st.sampled_from(["root", *(row.account for row in rows if row.user is None)]))
    more = [*rows, Association(account="empty", parent=parent, shares=shares)]
    for algorithm in ("fair_tree", "classic"):
        assert fairshares(more, algorithm) == fairshares(rows, algorithm)


@given(tree_rows(usages=st.floats(0, 1e9)))
@FEWER
def test_usage_of_an_account_is_its_users_and_fractions_are_of_one(rows):
    tree = AccountTree.build(rows)
    result = fair_tree(tree, usage_of(tree, rows))
    assert math.isclose(result.usage[0], math.fsum(row.usage for row in rows), rel_tol=1e-12)
    assert ((result.shares_norm >= 0) & (result.shares_norm <= 1)).all()
    assert ((result.usage_effective >= 0) & (result.usage_effective <= 1 + 1e-12)).all()

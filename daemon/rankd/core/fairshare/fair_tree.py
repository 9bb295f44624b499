"""Fair Tree: siblings compete by how far they are behind their share, and users are ranked depth first.

Source: Cox and Morrison, https://slurm.schedmd.com/fair_tree.html, with its three rules for ties. Slurm's code walks
tied accounts one after the other. Here they are merged, as documented there and as done by Flux. If a user is tied with
an account, Flux ranks the users of the account after that user. Here the best-ranked users of the account share the
rank of that user, as in Slurm.

The depth-first walk is done level by level. A *group* is a set of nodes that are ranked together: the children of an
account, or of several tied accounts. The number of users below each node is known beforehand. So the first rank of a
group is known as soon as its parents are sorted, and no level has to wait for the one below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.fairshare.deep_tree import TIE_TOLERANCE, users_ahead_one_by_one
from rankd.core.fairshare.layout import ROOT_NODE, BoolArray, FloatArray, IntArray, fraction
from rankd.core.fairshare.result import FairshareResult, usage_by_node

if TYPE_CHECKING:
    from rankd.core.fairshare.tree import AccountTree

NO_USAGE = 1e-9
"""Raw usage below this counts as 0."""

FEW_PER_LEVEL = 16
"""If levels have fewer nodes than this on average, the walk is faster node by node."""


def fair_tree(tree: AccountTree, usage_by_user: FloatArray, *, few_per_level: float = FEW_PER_LEVEL) -> FairshareResult:
    """Rank all users. The best one has the fair share 1.0. Tied users have the same value.

    Args:
        tree: the account tree.
        usage_by_user: float64 (n_users,) by user index, finite, at least 0, decayed to one instant.
        few_per_level: with fewer nodes per level, the tree is walked node by node; the result is the same.

    Raises:
        ValueError: usage of the wrong shape or range.
    """
    usage = usage_by_node(tree, usage_by_user)
    usage_effective = fraction(usage, usage[tree.layout.share_parents])
    usage_effective[ROOT_NODE] = 1.0
    level_fairshare = _level_fairshare(tree, usage, usage_effective)
    fairshare = np.full(len(usage), np.nan)
    is_deep = len(tree.layout.ranked_levels) * few_per_level > len(tree.parents)
    ahead = (users_ahead_one_by_one if is_deep else _users_ahead)(tree, level_fairshare)
    fairshare[tree.n_accounts :] = (tree.n_users - ahead) / max(tree.n_users, 1)
    return FairshareResult(
        shares_norm=tree.layout.shares_norm,
        usage=usage,
        usage_effective=usage_effective,
        level_fairshare=level_fairshare,
        fairshare=fairshare,
    )


def _level_fairshare(tree: AccountTree, usage: FloatArray, usage_effective: FloatArray) -> FloatArray:
    """Shares / usage among siblings: 0 without shares, +inf without usage and for ``shares: parent``."""
    used = usage >= NO_USAGE
    shares = fraction(tree.shares, tree.layout.sibling_shares)
    with np.errstate(over="ignore"):  # almost no usage among very much: +inf is the correct limit
        ratio = shares / np.where(used, usage_effective, 1.0)
    level_fairshare = np.where(tree.shares == 0, 0.0, np.where(used, ratio, np.inf))
    level_fairshare[tree.is_parent_shares] = np.inf
    level_fairshare[ROOT_NODE] = np.nan
    return level_fairshare


class _Groups(msgspec.Struct, frozen=True, eq=False):
    """The groups of one level.

    ``starts``: the number of users ranked before the group. ``first_ranks``: the number of users before the first run
    of the group. It is smaller if that run continues a run of users tied with the group's accounts.
    """

    of_account: IntArray
    starts: IntArray
    first_ranks: IntArray


def _users_ahead(tree: AccountTree, level_fairshare: FloatArray) -> IntArray:
    """The number of users before each user's run, int64 (n_users,). This is the user's rank, counted from 0."""
    ahead = np.zeros(len(tree.parents), dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    groups = _Groups(np.zeros(tree.n_accounts, dtype=np.int64), zero, zero)
    for nodes in tree.layout.ranked_levels:
        groups = _rank_level(tree, nodes, level_fairshare, groups, ahead)
    return ahead[tree.n_accounts :]


def _rank_level(
    tree: AccountTree, nodes: IntArray, level_fairshare: FloatArray, groups: _Groups, ahead: IntArray
) -> _Groups:
    """Write the ranks of one level's users into ``ahead``. Returns the groups of the next level.

    The users of a run come before its accounts. So the children of the accounts begin after these users, but their
    first run has the same rank as the users. If the run has no users, both numbers are equal.
    """
    group = groups.of_account[tree.layout.share_parents[nodes]]
    if len(nodes) == 1:
        return _rank_only(tree, int(nodes[0]), int(group[0]), groups, ahead)
    values = level_fairshare[nodes]
    is_one_group = len(groups.starts) == 1
    order = (-values).argsort(kind="stable") if is_one_group else np.lexsort((-values, group))
    nodes, group = nodes[order], group[order]
    is_first = _run_starts(group, values[order])
    firsts, run = is_first.nonzero()[0], is_first.cumsum() - 1
    starts, is_group_first = _run_positions(group[firsts], firsts, tree.layout.user_counts[nodes], groups.starts)
    ranks = np.where(is_group_first, groups.first_ranks[group[firsts]], starts)
    is_user = nodes >= tree.n_accounts
    ahead[nodes[is_user]] = ranks[run[is_user]]
    groups.of_account[nodes[~is_user]] = run[~is_user]
    return _Groups(groups.of_account, starts + np.bincount(run[is_user], minlength=len(firsts)), ranks)


def _rank_only(tree: AccountTree, node: int, group: int, groups: _Groups, ahead: IntArray) -> _Groups:
    """The same for a level of one node."""
    first_rank, is_user = groups.first_ranks[group], node >= tree.n_accounts
    if is_user:
        ahead[node] = first_rank
    else:
        groups.of_account[node] = 0
    start = groups.starts[group] + int(is_user)
    return _Groups(groups.of_account, np.array([start]), np.array([first_rank]))


def _run_positions(
    run_group: IntArray, firsts: IntArray, counts: IntArray, group_starts: IntArray
) -> tuple[IntArray, BoolArray]:
    """The number of users before each run, and whether the run is the first of its group.

    Args:
        run_group: int64 (n_runs,), the group of each run, ascending.
        firsts: int64 (n_runs,), the position of the first node of each run among the sorted nodes.
        counts: int64 (n_sorted,), users at and below each sorted node.
        group_starts: int64 (n_groups,), the number of users before each group.
    """
    before = (np.cumsum(counts) - counts)[firsts]
    is_group_first = np.concatenate([[True], run_group[1:] != run_group[:-1]])
    group_first = np.flatnonzero(is_group_first)[np.cumsum(is_group_first) - 1]
    starts: IntArray = group_starts[run_group] + before - before[group_first]
    return starts, is_group_first


def _run_starts(group: IntArray, values: FloatArray) -> BoolArray:
    """Which values are the first of a run of tied values, bool (n,). Values descend within each group.

    Each value is compared with the first of its run. Neighbours that are not tied are never in one run, because the
    first is even further away. So chains of tied neighbours are found at once. Only a chain whose values drift too far
    from its first is split.
    """
    is_first = np.ones(len(values), dtype=np.bool_)
    tied, is_same = _tied(values[:-1], values[1:]), group[1:] == group[:-1]
    is_first[1:] = ~(is_same & tied)
    if (tied == (values[:-1] == values[1:])).all():
        return is_first
    firsts, run = is_first.nonzero()[0], is_first.cumsum() - 1
    strays = ~_tied(values[firsts[run]], values)
    for chain in np.unique(run[strays]):
        stop = firsts[chain + 1] if chain + 1 < len(firsts) else len(values)
        _split(is_first, values, int(firsts[chain]), int(stop))
    return is_first


def _split(is_first: BoolArray, values: FloatArray, start: int, stop: int) -> None:
    """Split a chain of nearly equal values one by one. This is rare, and each split depends on the one before."""
    members = values[start:stop].tolist()
    first = members[0]
    for at, value in enumerate(members, start=start):
        if first - value > TIE_TOLERANCE * max(first, 1.0):
            is_first[at] = True
            first = value


def _tied(first: FloatArray, value: FloatArray) -> BoolArray:
    """Whether |a - b| <= 2^-52 * max(|a|, |b|, 1), for a >= b >= 0. +inf ties only with +inf."""
    with np.errstate(invalid="ignore"):  # inf - inf is NaN; the comparison with == decides
        near = first - value <= TIE_TOLERANCE * np.maximum(first, 1.0)
    near &= first < np.inf
    near |= first == value
    return near

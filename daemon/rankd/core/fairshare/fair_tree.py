"""Fair Tree: siblings compete by how far they are behind their share, and users are ranked depth first.

Source: Cox and Morrison, https://slurm.schedmd.com/fair_tree.html, with its three rules for ties. Slurm's
code walks tied accounts one after the other; here they are merged, as documented there and as done by Flux.
Where Flux ranks the users of an account after a user tied with that account, the account's best-ranked users
share that user's rank here, as Slurm's do.

The depth-first walk is done level by level. A *group* is what is ranked as one set: the children of an
account, or of accounts that tied. The number of users below each node is known beforehand, so the rank at
which a group begins is known as soon as its parents are sorted, and no level waits for the one below it.
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
"""Raw usage below this is none at all."""

FEW_PER_LEVEL = 16
"""Where levels hold fewer nodes on average, the walk is faster node by node."""


def fair_tree(tree: AccountTree, usage_by_user: FloatArray, *, few_per_level: float = FEW_PER_LEVEL) -> FairshareResult:
    """Rank all users; the best has the fair share 1.0. Users that tie share a value.

    Args:
        tree: the account tree.
        usage_by_user: float64 (n_users,) by user index, finite, at least 0, decayed to one instant.
        few_per_level: which way the tree is walked; the result is the same.

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
    """Shares over usage among siblings: 0 without shares, +inf without usage and for ``shares: parent``."""
    used = usage >= NO_USAGE
    shares = fraction(tree.shares, tree.layout.sibling_shares)
    with np.errstate(over="ignore"):  # next to no usage among very much: +inf is the right limit
        ratio = shares / np.where(used, usage_effective, 1.0)
    level_fairshare = np.where(tree.shares == 0, 0.0, np.where(used, ratio, np.inf))
    level_fairshare[tree.is_parent_shares] = np.inf
    level_fairshare[ROOT_NODE] = np.nan
    return level_fairshare


class _Groups(msgspec.Struct, frozen=True, eq=False):
    """The groups of one level.

    ``starts``: how many users are ranked before the group's. ``first_ranks``: the same for the group's first
    run, fewer where that run continues a run of users tied with the group's accounts.
    """

    of_account: IntArray
    starts: IntArray
    first_ranks: IntArray


def _users_ahead(tree: AccountTree, level_fairshare: FloatArray) -> IntArray:
    """How many users stand before each user's run, int64 (n_users,): its rank counted from 0."""
    ahead = np.zeros(len(tree.parents), dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    groups = _Groups(np.zeros(tree.n_accounts, dtype=np.int64), zero, zero)
    for nodes in tree.layout.ranked_levels:
        groups = _rank_level(tree, nodes, level_fairshare, groups, ahead)
    return ahead[tree.n_accounts :]


def _rank_level(
    tree: AccountTree, nodes: IntArray, level_fairshare: FloatArray, groups: _Groups, ahead: IntArray
) -> _Groups:
    """Rank one level's users into ``ahead``; the groups of the next level.

    A run's users come before its accounts, so the accounts' children begin after them; but those children's
    first run continues the users' rank. Without users in the run both are the same number.
    """
    group = groups.of_account[tree.layout.share_parents[nodes]]
    order = np.lexsort((-level_fairshare[nodes], group))
    nodes, group = nodes[order], group[order]
    is_first = _run_starts(group, level_fairshare[nodes])
    firsts, run = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    starts, is_group_first = _run_positions(group[firsts], firsts, tree.layout.user_counts[nodes], groups.starts)
    ranks = np.where(is_group_first, groups.first_ranks[group[firsts]], starts)
    is_user = nodes >= tree.n_accounts
    ahead[nodes[is_user]] = ranks[run[is_user]]
    groups.of_account[nodes[~is_user]] = run[~is_user]
    return _Groups(groups.of_account, starts + np.bincount(run[is_user], minlength=len(firsts)), ranks)


def _run_positions(
    run_group: IntArray, firsts: IntArray, counts: IntArray, group_starts: IntArray
) -> tuple[IntArray, BoolArray]:
    """How many users are before each run, and whether it is its group's first.

    Args:
        run_group: int64 (n_runs,), ascending.
        firsts: int64 (n_runs,), where the runs begin among the sorted nodes.
        counts: int64 (n_sorted,), users at and below each sorted node.
        group_starts: int64 (n_groups,).
    """
    before = (np.cumsum(counts) - counts)[firsts]
    is_group_first = np.concatenate([[True], run_group[1:] != run_group[:-1]])
    group_first = np.flatnonzero(is_group_first)[np.cumsum(is_group_first) - 1]
    starts: IntArray = group_starts[run_group] + before - before[group_first]
    return starts, is_group_first


def _run_starts(group: IntArray, values: FloatArray) -> BoolArray:
    """Where the runs of tied values begin; values descend within each group.

    Each value is compared with the first of its run. Neighbours that do not tie are never in one run, since
    the first is further away still. So chains of tied neighbours are found at once, and only those that drift
    away from their first are split.
    """
    is_first = np.ones(len(values), dtype=np.bool_)
    is_first[1:] = (group[1:] != group[:-1]) | ~_tied(values[:-1], values[1:])
    firsts, run = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    strays = ~_tied(values[firsts[run]], values)
    for chain in np.unique(run[strays]):
        stop = firsts[chain + 1] if chain + 1 < len(firsts) else len(values)
        _split(is_first, values, int(firsts[chain]), int(stop))
    return is_first


def _split(is_first: BoolArray, values: FloatArray, start: int, stop: int) -> None:
    """Split a chain of nearly equal values, one by one: rare, and each split depends on the one before."""
    members = values[start:stop].tolist()
    first = members[0]
    for at, value in enumerate(members, start=start):
        if first - value > TIE_TOLERANCE * max(first, 1.0):
            is_first[at] = True
            first = value


def _tied(first: FloatArray, value: FloatArray) -> BoolArray:
    """|a - b| <= 2^-52 * max(|a|, |b|, 1) where a >= b >= 0; +inf ties with +inf only."""
    with np.errstate(invalid="ignore"):  # inf - inf: decided by the comparison
        near = first - value <= TIE_TOLERANCE * np.maximum(first, 1.0)
    tied: BoolArray = (first == value) | (near & np.isfinite(first))
    return tied

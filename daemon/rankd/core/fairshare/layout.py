"""The account tree as arrays: all values that depend only on the tree, so that a pass only computes with usage.

Accounts are numbered first: level by level from the root (node 0), by name within a level. Then come the users, in the
order of their rows. So a parent always has a smaller number than its sub-accounts, a new user does not change the
numbers of others, and no result depends on the order in which accounts were listed.

An entry with ``shares: parent`` is skipped when entries are compared. Its children count as children of the nearest
ancestor with real shares, their *share parent*. Source: fs_assoc_ptr in Slurm's association manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ROOT_NODE = 0


class Layout(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Derived arrays over all n nodes; see :func:`derive`.

    Attributes:
        share_parents: int64 (n,): the share parent of each node, whose other children it competes with; root has
        itself. sibling_shares: float64 (n,): the sum of the shares of the node and its siblings. shares_norm: float64
        (n,): the product of the share fractions down the tree. Root has 1; an entry with
            ``shares: parent`` has that of its share parent.
        user_counts: int64 (n,): users at and below the node in the share tree; a user has 1.
        ranked_levels: for each depth in the share tree, from 1: the nodes with any users, ascending.
    """

    share_parents: IntArray
    sibling_shares: FloatArray
    shares_norm: FloatArray
    user_counts: IntArray
    ranked_levels: tuple[IntArray, ...]


def derive(
    parents: IntArray, shares: FloatArray, is_parent_shares: BoolArray, account_levels: Sequence[slice]
) -> Layout:
    """The layout from parents and shares. The cost is O(n log n), with a few numpy calls per level.

    Args:
        parents: int64 (n,); root has itself.
        shares: float64 (n,), 0 where ``is_parent_shares``.
        is_parent_shares: bool (n,).
        account_levels: one slice of nodes per depth of the account tree, root's first.
    """
    n_accounts = account_levels[-1].stop
    parts = [*account_levels[1:], slice(n_accounts, len(parents))]
    share_parents, depths = _share_tree(parents, is_parent_shares, parts)
    sibling_shares = sum_by_parent(shares[1:], share_parents[1:], n_accounts)[share_parents]
    user_counts = _count_users(share_parents, account_levels)
    return Layout(
        share_parents=share_parents,
        sibling_shares=sibling_shares,
        shares_norm=_normalise(shares, sibling_shares, share_parents, is_parent_shares, parts),
        user_counts=user_counts,
        ranked_levels=_rank_levels(depths, user_counts),
    )


def sum_by_parent(values: FloatArray, parents: IntArray, n_accounts: int) -> FloatArray:
    """The sum of values per parent, float64 (n_accounts,). The smallest values are added first.

    So the same numbers in another order give the same bits, and accounts that should be equal are tied.
    """
    order = np.argsort(values, kind="stable")  # many are 0, and equal ones take it little time
    sums = np.bincount(parents[order], weights=values[order], minlength=n_accounts)
    return sums.astype(np.float64, copy=False)


def add_to_ancestors(totals: FloatArray, parents: IntArray, account_levels: Sequence[slice]) -> None:
    """Add the total of each account to that of its parent, in place: the deepest level first, the smallest first."""
    for level in reversed(account_levels[1:]):
        order = np.argsort(totals[level])
        np.add.at(totals, parents[level][order], totals[level][order])


def fraction(part: FloatArray, whole: FloatArray) -> FloatArray:
    """``part / whole``, or 0 if the whole is 0."""
    positive = whole > 0
    with np.errstate(over="ignore"):  # only root's value may overflow; it is not used
        return np.where(positive, part / np.where(positive, whole, 1.0), 0.0)


def _share_tree(parents: IntArray, is_parent_shares: BoolArray, parts: Sequence[slice]) -> tuple[IntArray, IntArray]:
    """Share parents and depths in the share tree, top down."""
    share_parents, depths = np.zeros_like(parents), np.zeros_like(parents)
    for part in parts:
        above = parents[part]
        share_parents[part] = np.where(is_parent_shares[above], share_parents[above], above)
        depths[part] = depths[share_parents[part]] + 1
    return share_parents, depths


def _normalise(
    shares: FloatArray,
    sibling_shares: FloatArray,
    share_parents: IntArray,
    is_parent_shares: BoolArray,
    parts: Sequence[slice],
) -> FloatArray:
    """The product of the share fractions down the tree."""
    fractions = np.where(is_parent_shares, 1.0, fraction(shares, sibling_shares))
    fractions[ROOT_NODE] = 1.0
    shares_norm = np.ones(len(shares))
    for part in parts:
        shares_norm[part] = shares_norm[share_parents[part]] * fractions[part]
    return shares_norm


def _count_users(share_parents: IntArray, account_levels: Sequence[slice]) -> IntArray:
    """The users at and below each node. A node with ``shares: parent`` has 0: its users count at its share parent."""
    n_accounts = account_levels[-1].stop
    counts = np.ones(len(share_parents), dtype=np.int64)
    counts[:n_accounts] = np.bincount(share_parents[n_accounts:], minlength=n_accounts)
    for level in reversed(account_levels[1:]):
        np.add.at(counts, share_parents[level], counts[level])
    return counts


def _rank_levels(depths: IntArray, user_counts: IntArray) -> tuple[IntArray, ...]:
    """The nodes with users, by depth in the share tree. Accounts without users do not matter for the ranking."""
    nodes = np.flatnonzero((user_counts > 0) & (depths > 0))
    nodes = nodes[np.argsort(depths[nodes], kind="stable")]
    if not len(nodes):
        return ()
    return tuple(np.split(nodes, np.flatnonzero(np.diff(depths[nodes])) + 1))

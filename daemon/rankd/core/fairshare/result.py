"""The result of all fair-share algorithms, and the usage of accounts, which all of them need first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.fairshare.layout import ROOT_NODE, FloatArray, add_to_ancestors, sum_by_parent

if TYPE_CHECKING:
    from rankd.core.fairshare.tree import AccountTree


class FairshareResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The numbers of one pass, each float64 (n,) by node of the tree; NaN if a node has no such number.

    Attributes:
        shares_norm: the product of the share fractions down the tree; root has 1.
        usage: billing units times seconds, decayed; the usage of an account is the sum of all users below it.
        usage_effective: the node's fraction of the usage of its siblings; with classic, Slurm's effective usage; root
            has 1.
        level_fairshare: 0 to +inf; larger means further behind its share; NaN for root and with classic.
        fairshare: 0 to 1; larger runs earlier; NaN for root, and for accounts with fair tree.
    """

    shares_norm: FloatArray
    usage: FloatArray
    usage_effective: FloatArray
    level_fairshare: FloatArray
    fairshare: FloatArray


def usage_by_node(tree: AccountTree, usage_by_user: FloatArray) -> FloatArray:
    """The usage of all nodes, float64 (n,), from the usage of the users, float64 (n_users,).

    The result does not depend on the order of users, because smaller numbers are added first.

    Raises:
        ValueError: the length is wrong; a value is NaN, infinite or negative; or the sum is infinite.
    """
    if usage_by_user.shape != (tree.n_users,):
        raise ValueError(f"usage has the shape {usage_by_user.shape}; the tree has {tree.n_users} users")
    # with NaN among them, both are NaN
    if len(usage_by_user) and not (usage_by_user.min() >= 0 and usage_by_user.max() < np.inf):
        worst = int(np.flatnonzero(~(np.isfinite(usage_by_user) & (usage_by_user >= 0)))[0])
        raise ValueError(
            f"usage of user '{tree.users[worst]}' is {usage_by_user[worst]}; it must be finite and at least 0"
        )
    totals = sum_by_parent(usage_by_user, tree.parents[tree.n_accounts :], tree.n_accounts)
    add_to_ancestors(totals, tree.parents, tree.account_levels)
    if not np.isfinite(totals[ROOT_NODE]):
        raise ValueError("the sum of all usage is more than 1.8e308; give usage in a larger unit")
    return np.concatenate([totals, usage_by_user])

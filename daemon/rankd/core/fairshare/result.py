"""What every fair-share algorithm returns, and the usage of accounts, which they all start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.fairshare.layout import ROOT_NODE, FloatArray, add_to_ancestors, sum_by_parent

if TYPE_CHECKING:
    from rankd.core.fairshare.tree import AccountTree


class FairshareResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One pass's numbers, each float64 (n,) over the tree's nodes; NaN where a node has none.

    Attributes:
        shares_norm: product of the share fractions down the tree; root 1.
        usage: billing units times seconds, decayed; an account's is the sum of its users', at all depths.
        usage_effective: its part of its siblings' usage; under classic, Slurm's effective usage; root 1.
        level_fairshare: 0 to +inf, larger is further behind its share; NaN for root and under classic.
        fairshare: 0 to 1, larger runs earlier; NaN for root, and for accounts under fair tree.
    """

    shares_norm: FloatArray
    usage: FloatArray
    usage_effective: FloatArray
    level_fairshare: FloatArray
    fairshare: FloatArray


def usage_by_node(tree: AccountTree, usage_by_user: FloatArray) -> FloatArray:
    """Usage of all nodes, float64 (n,), from the users', float64 (n_users,).

    Independent of the order of users: smaller numbers are added first.

    Raises:
        ValueError: wrong length, a value that is NaN, infinite or negative, or a sum that is infinite.
    """
    if usage_by_user.shape != (tree.n_users,):
        raise ValueError(f"usage has the shape {usage_by_user.shape}; the tree has {tree.n_users} users")
    if not (np.isfinite(usage_by_user) & (usage_by_user >= 0)).all():
        worst = int(np.flatnonzero(~(np.isfinite(usage_by_user) & (usage_by_user >= 0)))[0])
        raise ValueError(
            f"usage of user '{tree.users[worst]}' is {usage_by_user[worst]}; it must be finite and at least 0"
        )
    totals = sum_by_parent(usage_by_user, tree.parents[tree.n_accounts :], tree.n_accounts)
    add_to_ancestors(totals, tree.parents, tree.account_levels)
    if not np.isfinite(totals[ROOT_NODE]):
        raise ValueError("the sum of all usage is over 1.8e308; give usage in a larger unit")
    return np.concatenate([totals, usage_by_user])

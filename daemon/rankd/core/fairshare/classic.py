"""Classic fair share: a number per entry, from its share of the whole, its own usage and that of its account.

    F = 2^( -usage_effective / (shares_norm * dampening) )
    usage_effective = u                                              for root's children
                    = u + (usage_effective(parent) - u) * share fraction       for all others

with u = the usage of the entry / the usage of the whole tree. Source:
https://slurm.schedmd.com/classic_fair_share.html. An entry with ``shares: parent`` has the factor of its share parent
(there: "FairShare=parent"). If no sibling has any shares, the effective usage is that of the parent, as in Slurm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankd.core.fairshare.layout import ROOT_NODE, FloatArray, fraction
from rankd.core.fairshare.result import FairshareResult, usage_by_node

if TYPE_CHECKING:
    from rankd.core.fairshare.tree import AccountTree


def classic(tree: AccountTree, usage_by_user: FloatArray, dampening: float = 1.0) -> FairshareResult:
    """The factor of every entry except root, 0 to 1. At 0.5, the entry has used exactly its share; more is better.

    Args:
        tree: the account tree.
        usage_by_user: float64 (n_users,) by user index, finite, at least 0, decayed to one instant.
        dampening: more than 0; a larger number makes differences smaller.

    Raises:
        ValueError: usage of the wrong shape or range.
    """
    usage = usage_by_node(tree, usage_by_user)
    usage_effective = _effective_usage(tree, usage)
    fairshare = _factor(tree, usage_effective, dampening)
    fairshare[ROOT_NODE] = np.nan
    return FairshareResult(
        shares_norm=tree.layout.shares_norm,
        usage=usage,
        usage_effective=usage_effective,
        level_fairshare=np.full(len(usage), np.nan),
        fairshare=fairshare,
    )


def _effective_usage(tree: AccountTree, usage: FloatArray) -> FloatArray:
    """The own usage, moved towards that of the parent by the fraction of its shares; top down."""
    effective = fraction(usage, np.full(len(usage), usage[ROOT_NODE]))
    effective[ROOT_NODE] = 1.0
    share_parents, sibling_shares = tree.layout.share_parents, tree.layout.sibling_shares
    takes_parents = tree.is_parent_shares | (sibling_shares == 0)
    fractions = np.where(takes_parents, 1.0, fraction(tree.shares, sibling_shares))
    for part in (*tree.account_levels[1:], slice(tree.n_accounts, len(usage))):
        own, above = effective[part], share_parents[part]
        pulled = np.where(takes_parents[part], effective[above], own + (effective[above] - own) * fractions[part])
        effective[part] = np.where(above == ROOT_NODE, own, pulled)
    return effective


def _factor(tree: AccountTree, usage_effective: FloatArray, dampening: float) -> FloatArray:
    """2^(-usage_effective / (shares_norm * dampening)); 0 without shares.

    An entry with ``shares: parent`` has the factor of its share parent.
    """
    shares = tree.layout.shares_norm * dampening
    has_shares = shares > 0
    with np.errstate(over="ignore", under="ignore"):  # with a tiny share, the exponent is -inf and the factor 0
        factors = np.exp2(-usage_effective / np.where(has_shares, shares, 1.0))
    factors = np.where(has_shares, factors, 0.0)
    return np.where(tree.is_parent_shares, factors[tree.layout.share_parents], factors)

"""Usage from outside, added to the usage that rankd has charged itself. Both are stored separately.

Each adapter gives all its usage at one instant, as a statement. A later statement replaces the earlier one. External
and own usage decay in the same way (spec: "external usage is added to the same accumulators").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.adapter.input import UsageRow
from rankd.core.fairshare.decay import decay
from rankd.core.fairshare.tree import AccountTree
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.ranking import Usage


class External(NamedTuple):
    """One adapter's statement: ``amounts`` at ``at`` (UTC seconds), each (n_users,) by user index of the tree."""

    amounts: FloatArray
    at: FloatArray


def external_usage(rows: Iterable[UsageRow], read_at: float, tree: AccountTree) -> External:
    """A statement as arrays for a tree. Users who are not in the tree are left out. O(rows)."""
    amounts, at = np.zeros(tree.n_users), np.full(tree.n_users, read_at)
    for row in rows:
        index = tree.user_index(row.account, row.user)
        if index is not None:
            amounts[index] = row.usage
            at[index] = read_at if row.usage_at is None else row.usage_at
    return External(amounts, at)


def with_external(usage: Usage, statements: Sequence[External], half_life_s: float | None) -> Usage:
    """The usage with all statements added, at the later time of both. Users without external usage don't change."""
    amounts, at = usage.amounts, usage.at
    for external in statements:
        has_any = external.amounts > 0
        later = np.where(has_any, np.maximum(at, external.at), at)
        faded = decay(external.amounts, later - external.at, half_life_s)
        amounts = np.where(has_any, decay(amounts, later - at, half_life_s) + faded, amounts)
        at = later
    return msgspec.structs.replace(usage, amounts=amounts, at=at)

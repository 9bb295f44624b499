"""The entry point of fair share: the configured algorithm on a tree and the usage of its users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.core.fairshare.classic import classic
from rankd.core.fairshare.fair_tree import fair_tree

if TYPE_CHECKING:
    from rankd.core.fairshare.layout import FloatArray
    from rankd.core.fairshare.result import FairshareResult
    from rankd.core.fairshare.tree import AccountTree
    from rankd.core.model.setting import FairshareSettings


def compute(tree: AccountTree, usage_by_user: FloatArray, settings: FairshareSettings) -> FairshareResult:
    """Fair share of all associations by ``settings.algorithm``.

    Args:
        tree: the account tree.
        usage_by_user: float64 (n_users,) by user index, finite, at least 0, decayed to one instant.
        settings: the algorithm, and the dampening for classic.

    Raises:
        ValueError: usage of the wrong shape or range.
    """
    if settings.algorithm == "classic":
        return classic(tree, usage_by_user, settings.dampening)
    return fair_tree(tree, usage_by_user)

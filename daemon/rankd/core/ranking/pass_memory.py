"""The values that one pass keeps for the next: what follows from the queues and the account tree alone.

They save time; they do not change results. Queues, trees and ids are compared by identity, so a change needs a new
object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.model.queue import QueueProperties
from rankd.core.ranking.columns import FloatArray, IntArray
from rankd.core.ranking.order import OrderQueue, PreOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.core.fairshare.tree import AccountTree
    from rankd.core.ranking.queue_view import QueueView


class OfQueues(msgspec.Struct, frozen=True):
    """What follows from the queues. ``factors`` float64 (n_queues,): the ``priority.factor`` of leaves; NaN: not set.

    ``pre_order``: the queues for ordering, if their order is always the same; None if it depends on what they use.
    """

    factors: FloatArray
    pre_order: PreOrder | None


class OfTree(msgspec.Struct, frozen=True):
    """What follows from the account tree: ``priorities`` float64 (n_associations,) by id, and the largest of all."""

    n_associations: int
    priorities: FloatArray
    largest_priority: float


class PassMemory:
    """Empty at first. To be used for one site, one pass after the other."""

    def __init__(self) -> None:
        self._queues: Sequence[Sequence[QueueView]] | None = None
        self._n_queues = 0
        self._of_queues: OfQueues | None = None
        self._tree: tuple[AccountTree, IntArray] | None = None
        self._of_tree: OfTree | None = None

    def of_queues(self, queues: Sequence[Sequence[QueueView]], n_queues: int) -> OfQueues:
        """What follows from the queues of each partition. ``n_queues``: one more than the largest id of a queue."""
        if self._of_queues is None or self._queues is not queues or self._n_queues != n_queues:
            self._queues, self._n_queues = queues, n_queues
            self._of_queues = OfQueues(_factors(queues, n_queues), _fixed_order(queues, n_queues))
        return self._of_queues

    def of_tree(self, tree: AccountTree, association_ids: IntArray) -> OfTree:
        """What follows from the tree. ``association_ids`` int64 (n_users,): ids by the tree's user index."""
        if self._of_tree is None or not self._is_of(tree, association_ids):
            self._tree = (tree, association_ids)
            priorities = np.zeros(int(association_ids.max(initial=-1)) + 1)
            priorities[association_ids] = tree.of_users(tree.priorities)
            self._of_tree = OfTree(len(priorities), priorities, float(tree.priorities.max(initial=0.0)))
        return self._of_tree

    def _is_of(self, tree: AccountTree, association_ids: IntArray) -> bool:
        return self._tree is not None and self._tree[0] is tree and self._tree[1] is association_ids


def _factors(queues: Sequence[Sequence[QueueView]], n_queues: int) -> FloatArray:
    factors = np.full(n_queues, np.nan)
    parents = {view.parent for views in queues for view in views}
    for views in queues:
        for view in views:
            if view.id not in parents and view.properties.priority_factor is not None:
                factors[view.id] = view.properties.priority_factor
    return factors


def _fixed_order(queues: Sequence[Sequence[QueueView]], n_queues: int) -> PreOrder | None:
    """The queues for ordering, if each has at most one child: then what they use decides nothing."""
    made = [OrderQueue(properties=QueueProperties(), is_root=True)] * n_queues
    for views in queues:
        children = [view.parent for view in views if view.parent is not None]
        if len(set(children)) < len(children):
            return None
        below = dict(zip(children, (view.id for view in views if view.parent is not None), strict=True))
        for view in views:
            own = (below[view.id],) if view.id in below else ()
            made[view.id] = OrderQueue(properties=view.properties, is_root=view.parent is None, children=own)
    return PreOrder(made, [views[0].id for views in queues])

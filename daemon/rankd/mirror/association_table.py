"""The account tree that the prioritizer remembers, and the usage of its associations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.fairshare.tree import AccountTree
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.name import association_names
from rankd.core.ranking.ranking import Usage
from rankd.store.feed.association import AssociationRow
from rankd.store.feed.charge import ChargeRow

_NO_IDS: IntArray = np.empty(0, dtype=np.int64)


class Ledger(NamedTuple):
    """Usage, with the ids of its associations and of the allocations whose charges are not settled yet."""

    usage: Usage
    association_ids: IntArray
    allocation_ids: IntArray


class AssociationTable:
    """The tree of the associations with shares; the others are in :attr:`outside`.

    ``ids`` are by the tree's user index, ``node_ids`` by its node (-1 for none).
    """

    def __init__(self) -> None:
        self.ids = self.node_ids = _NO_IDS
        self.outside: frozenset[int] = frozenset()
        self.names: tuple[tuple[str, str], ...] = ()
        self._outside_ids = _NO_IDS
        self._usage: dict[int, tuple[float, float]] = {}
        self._tree: AccountTree | None = None

    @property
    def tree(self) -> AccountTree:
        """The tree of the last :meth:`replace`."""
        assert self._tree is not None  # noqa: S101 - replace comes first
        return self._tree

    def forget_outside(self) -> None:
        """Forget which associations are outside of the tree, until the next :meth:`replace`."""
        self.outside, self._outside_ids = frozenset(), _NO_IDS

    def replace(self, rows: Sequence[AssociationRow], *, only_configured: bool) -> None:
        """Build the tree of these associations. With ``only_configured``, unconfigured users stay outside."""
        self._usage = {row.id: (row.usage, row.usage_at) for row in rows}
        if only_configured:
            self.outside = frozenset(row.id for row in rows if row.association.user and not row.is_configured)
            self._outside_ids = np.array(sorted(self.outside), dtype=np.int64)
            rows = [row for row in rows if row.id not in self.outside]
        self._tree = tree = AccountTree.build([row.association for row in rows])
        ids = np.array([row.id for row in rows], dtype=np.int64)
        self.node_ids = np.where(tree.rows >= 0, ids[np.maximum(tree.rows, 0)], -1)
        self.ids = self.node_ids[tree.n_accounts :]
        self.names = association_names(tree, self.ids)

    def ledgers(self, charges: Sequence[ChargeRow]) -> tuple[Ledger, Ledger]:
        """The usage of the associations in the tree, and of those outside of it."""
        inside = [row for row in charges if row.association not in self.outside]
        outside = [row for row in charges if row.association in self.outside]
        return self._ledger(self.ids, inside), self._ledger(self._outside_ids, outside)

    def _ledger(self, ids: IntArray, charges: Sequence[ChargeRow]) -> Ledger:
        place = {id_: at for at, id_ in enumerate(ids.tolist())}
        amounts = [self._usage[id_] for id_ in ids.tolist()]
        usage = Usage(
            amounts=np.array([amount for amount, _ in amounts], dtype=np.float64),
            at=np.array([at for _, at in amounts], dtype=np.float64),
            users=np.array([place[row.association] for row in charges], dtype=np.int64),
            rates=np.array([row.rate for row in charges], dtype=np.float64),
            since=np.array([row.since for row in charges], dtype=np.float64),
            until=np.array([math.inf if row.until is None else row.until for row in charges], dtype=np.float64),
        )
        return Ledger(usage, ids, np.array([row.allocation for row in charges], dtype=np.int64))

    def settle(self, usage: Iterable[tuple[float, float, int]]) -> None:
        """Note usage that was just committed: (usage, at, association id)."""
        for amount, at, association in usage:
            self._usage[association] = (amount, at)

"""The common reasons of kinds that were passed everywhere: one reason for all queues without a reason of their own.

The types that nodes lack for a kind are stored between cycles. A reason is computed again only if they have changed.
"""

from __future__ import annotations

from itertools import compress

import numpy as np

from rankd.core.placement.grown_array import with_room
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import WaitReason
from rankd.core.placement.reason import lacking, not_able
from rankd.core.ranking.columns import BoolArray, IntArray


class CommonReasons:
    """The reasons for one node set, one table of kinds and one backfill policy. With others, it starts again.

    The node set and the table are compared by identity, according to the contract of :class:`.PartitionProblem`. Kinds
    that are added to the table later do not change the reasons of the others.
    """

    def __init__(self) -> None:
        self._of: tuple[object, object, str] = (None, None, "")
        self._vectors: IntArray = np.empty((0, 0), dtype=np.int64)
        self._n_kinds = 0
        self._unable: BoolArray = np.empty(0, dtype=bool)
        self._any_unable = False
        self._lacks: BoolArray = np.empty((0, 0), dtype=bool)
        self._reasons: list[WaitReason | None] = []
        self._told: BoolArray = np.empty(0, dtype=bool)
        self._answer: tuple[WaitReason, ...] = ()

    def of(
        self, partition: PartitionState, table: NodeTable, largest: IntArray, backfill: str, told: BoolArray
    ) -> tuple[WaitReason, ...]:
        """The reasons of the kinds in ``told``, bool (n_kinds,).

        ``largest`` int64 (n_types + 1,): no node has more free than this. If no reason has changed, the result is the
        same tuple object as the last time.
        """
        self._update(partition, table, backfill)
        self._know_vectors(partition, table)
        lacks = (self._vectors > largest) & (self._vectors > 0)
        changed = (lacks != self._lacks).any(axis=1)
        for kind in np.flatnonzero(changed).tolist():
            self._reasons[kind] = None
        self._lacks = lacks
        if len(told) == len(self._told) and not (told != self._told).any() and not (changed & told).any():
            return self._answer
        has_reason = np.array([reason is not None for reason in self._reasons], dtype=bool)
        for kind in np.flatnonzero(told & ~has_reason).tolist():
            self._reasons[kind] = _why(kind, partition, table, largest, backfill)
        self._told = told
        self._answer = tuple(reason for reason in compress(self._reasons, told.tolist()) if reason is not None)
        return self._answer

    def unable(self, partition: PartitionState, table: NodeTable, backfill: str) -> BoolArray | None:
        """The kinds that too few nodes could hold, even if all nodes were empty; bool (n_kinds,). None: no kind."""
        self._update(partition, table, backfill)
        return self._unable[: self._n_kinds] if self._any_unable else None

    def _update(self, partition: PartitionState, table: NodeTable, backfill: str) -> None:
        """Start again for another node set, table of kinds or policy. Add rows for new kinds of the same table."""
        nodes, kinds, said = self._of
        if nodes is not table.set or kinds is not partition.kinds or said != backfill:
            width = len(table.types) + 1
            self._of, self._reasons, self._answer = (table.set, partition.kinds, backfill), [], ()
            self._vectors, self._lacks = np.empty((0, width), dtype=np.int64), np.empty((0, width), dtype=bool)
            self._told, self._n_kinds, self._any_unable = np.empty(0, dtype=bool), 0, False
        if self._n_kinds < len(partition.kinds):
            shapes = [kind.shape for kind in partition.kinds.kinds[self._n_kinds :]]
            first, self._n_kinds = self._n_kinds, self._n_kinds + len(shapes)
            self._unable = with_room(self._unable, self._n_kinds)
            unable = [table.demand(shape).n_able < shape.min_nodes for shape in shapes]
            self._unable[first : self._n_kinds] = unable
            self._any_unable |= any(unable)

    def _know_vectors(self, partition: PartitionState, table: NodeTable) -> None:
        """Add rows for the kinds without any. Only reasons need them."""
        new = [table.demand(kind.shape) for kind in partition.kinds.kinds[len(self._reasons) :]]
        if new:
            self._vectors = np.concatenate([self._vectors, np.array([demand.vector for demand in new])])
            self._lacks = np.concatenate([self._lacks, np.zeros((len(new), self._lacks.shape[1]), dtype=bool)])
            self._reasons += [None] * len(new)


def _why(kind: int, partition: PartitionState, table: NodeTable, largest: IntArray, backfill: str) -> WaitReason:
    shape = partition.kinds[kind].shape
    demand = table.demand(shape)
    if demand.n_able < shape.min_nodes:
        return WaitReason(None, kind, *not_able(shape, demand.n_able, table))
    return WaitReason(None, kind, *lacking(shape, 0, demand, largest.tolist(), table, backfill))

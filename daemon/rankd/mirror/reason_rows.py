"""Reasons for waiting as the records take them: made from what cycles say, kept as long as they say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import CycleOutcome, WaitReason
from rankd.mirror.pending_table import PendingTable
from rankd.store.record.allocation import ReasonRow

Key = tuple[int, int, float, str, int]


class _Known(NamedTuple):
    """A common reason, and its row if that is one for all leaves."""

    reason: WaitReason
    key: Key
    row: ReasonRow | None


class ReasonRows:
    """The rows of the last cycle, and what they were made of."""

    def __init__(self, table: PendingTable) -> None:
        self._table = table
        self._kinds: object = None
        self._common: dict[int, _Known] = {}
        self._plain: dict[Key, ReasonRow] = {}
        self._said: list[tuple[tuple[WaitReason, ...], tuple[WaitReason, ...]]] = []
        self._rows: frozenset[ReasonRow] = frozenset()
        self._is_plain = True
        """Whether the leaves that have jobs of a kind make no difference."""

    def of(self, outcomes: Sequence[CycleOutcome], partitions: Sequence[PartitionState]) -> frozenset[ReasonRow]:
        """Of all partitions; the same set if they say the same as the last time."""
        if self._table.kind_table is not self._kinds:
            self._kinds, self._common, self._plain, self._said = self._table.kind_table, {}, {}, []
        said = [(outcome.own, outcome.common) for outcome in outcomes]
        if self._is_plain and len(said) == len(self._said) and all(map(_is_same, said, self._said)):
            return self._rows
        rows = self._common_rows([reason for outcome in outcomes for reason in outcome.common])
        for outcome, partition in zip(outcomes, partitions, strict=True):
            for row in (*self._by_leaf(outcome, partition), *(self._row(own, own.queue or 0) for own in outcome.own)):
                rows[_key(row)] = row
        self._said = said
        self._rows = frozenset(rows.values())
        return self._rows

    def _common_rows(self, reasons: Sequence[WaitReason]) -> dict[Key, ReasonRow]:
        """The rows that are for all leaves, by what there is one for; only reasons that are new are looked at."""
        by_id = dict(zip(map(id, reasons), reasons, strict=True))
        known = self._common
        for gone in known.keys() - by_id.keys():
            if (of := known.pop(gone)).row is not None:
                self._plain.pop(of.key, None)
        for new in by_id.keys() - known.keys():
            of = known[new] = self._known(by_id[new])
            if of.row is not None:
                self._plain[of.key] = of.row
        self._is_plain = len(self._plain) == len(reasons)
        if not self._is_plain:  # one may have taken another's place
            self._plain = {key: row for _, key, row in known.values() if row is not None}
        return self._plain.copy()

    def _known(self, reason: WaitReason) -> _Known:
        row = self._row(reason, 0)
        return _Known(reason, _key(row), row if self._table.key(reason.kind).is_plain else None)

    def _by_leaf(self, outcome: CycleOutcome, partition: PartitionState) -> Iterator[ReasonRow]:
        """Common reasons leaf by leaf, where a row for all would meet those of single users or applications."""
        if self._is_plain:
            return
        single = [reason for reason in outcome.common if self._common[id(reason)].row is None]
        which = np.zeros(len(partition.kinds), dtype=bool)
        which[[reason.kind for reason in single]] = True
        leaves = partition.leaves_by_kind(which)
        for reason in single:
            for queue in leaves.get(reason.kind, ()):
                yield self._row(reason, queue)

    def _row(self, reason: WaitReason, queue: int) -> ReasonRow:
        key = self._table.key(reason.kind)
        return ReasonRow(
            queue=queue,
            shape=key.shape,
            time_limit_s=-1.0 if key.time_limit_s is None else key.time_limit_s,
            user=key.user,
            application=key.application,
            reason=reason.reason,
            fact=reason.fact,
        )


def _is_same(
    one: tuple[tuple[WaitReason, ...], tuple[WaitReason, ...]],
    other: tuple[tuple[WaitReason, ...], tuple[WaitReason, ...]],
) -> bool:
    return one[0] == other[0] and one[1] is other[1]


def _key(row: ReasonRow) -> Key:
    """What there is one reason for."""
    return row.queue, row.shape, row.time_limit_s, row.user, row.application

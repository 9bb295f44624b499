"""Reasons for waiting as rows of the records: made from the outcomes of cycles, and reused while these are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import CycleOutcome, WaitReason
from rankd.mirror.pending_kinds import PendingKinds
from rankd.store.record.allocation import ReasonRow

ReasonKey = tuple[int, int, float, str, int]
"""Queue, shape, time limit, user, application: the records have one reason for each."""


class _Known(NamedTuple):
    """A common reason with its key; and its row, if one row is enough for all leaves."""

    reason: WaitReason
    key: ReasonKey
    row: ReasonRow | None


class _Found(NamedTuple):
    """The reasons of a cycle for a partition: those of single leaves, and those of all leaves."""

    own: tuple[WaitReason, ...]
    common: tuple[WaitReason, ...]


class ReasonRows:
    """The rows of the last cycle, and their sources.

    Reasons are compared by identity. A cycle that finds the same common reasons as the last one returns the same tuple
    (:class:`rankd.core.placement.problem.CycleOutcome`), and an unchanged reason stays the same object.
    """

    def __init__(self, kinds: PendingKinds) -> None:
        self._kinds = kinds
        self._kinds_version = -1
        self._common: dict[int, _Known] = {}
        self._plain: dict[ReasonKey, ReasonRow] = {}
        self._last: list[_Found] = []
        self._rows: frozenset[ReasonRow] = frozenset()
        self._is_plain = True
        """Whether no row depends on which leaves have jobs of a kind."""

    def of(self, outcomes: Sequence[CycleOutcome], partitions: Sequence[PartitionState]) -> frozenset[ReasonRow]:
        """The rows of all partitions; the same object as last time if the cycles found the same."""
        if self._kinds.version != self._kinds_version:
            self._kinds_version, self._common, self._plain, self._last = self._kinds.version, {}, {}, []
        found = [_Found(outcome.own, outcome.common) for outcome in outcomes]
        if self._is_plain and len(found) == len(self._last) and all(map(_is_same, found, self._last)):
            return self._rows
        rows = self._common_rows([reason for outcome in outcomes for reason in outcome.common])
        for outcome, partition in zip(outcomes, partitions, strict=True):
            for row in (*self._by_leaf(outcome, partition), *(self._row(own, own.queue or 0) for own in outcome.own)):
                rows[_key(row)] = row
        self._last = found
        self._rows = frozenset(rows.values())
        return self._rows

    def _common_rows(self, reasons: Sequence[WaitReason]) -> dict[ReasonKey, ReasonRow]:
        """The rows that apply to all leaves, by key. Only new reasons are converted."""
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
        if not self._is_plain:  # two reasons may have had the same key
            self._plain = {key: row for _, key, row in known.values() if row is not None}
        return self._plain.copy()

    def _known(self, reason: WaitReason) -> _Known:
        row = self._row(reason, 0)
        return _Known(reason, _key(row), row if self._kinds.key(reason.kind).is_plain else None)

    def _by_leaf(self, outcome: CycleOutcome, partition: PartitionState) -> Iterator[ReasonRow]:
        """Common reasons leaf by leaf, if one row for all leaves would also apply to other users or applications."""
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
        key = self._kinds.key(reason.kind)
        return ReasonRow(
            queue=queue,
            shape=key.shape,
            time_limit_s=-1.0 if key.time_limit_s is None else key.time_limit_s,
            user=key.user,
            application=key.application,
            reason=reason.reason,
            fact=reason.fact,
        )


def _is_same(one: _Found, other: _Found) -> bool:
    return one.own == other.own and one.common is other.common


def _key(row: ReasonRow) -> ReasonKey:
    """The key of a reason in the records."""
    return row.queue, row.shape, row.time_limit_s, row.user, row.application

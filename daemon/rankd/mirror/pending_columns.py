"""Pending jobs as columns that grow at their end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray
from rankd.store.feed.pending_kind import PendingBatch

_ROOM_BEHIND = 16
"""A column that grows gets extra room for one more sixteenth of its length."""


class PendingColumns(NamedTuple):
    """By row, ids ascending; int64 (n_rows,), ``submitted_at`` float64, the last two bool.

    ``kinds`` index the kind table. ``applications``: -1 for none. ``is_eligible``: neither held nor blocked.
    ``is_pending``: False for a job that has started or is gone; it keeps its row for a while.
    """

    ids: IntArray
    revisions: IntArray
    queues: IntArray
    qos: IntArray
    kinds: IntArray
    applications: IntArray
    submitted_at: FloatArray
    is_eligible: BoolArray
    is_pending: BoolArray

    @classmethod
    def empty(cls) -> PendingColumns:
        """No rows."""
        types = [np.int64] * 6 + [np.float64] + [np.bool_] * 2
        return cls._make(np.empty(0, dtype=kind) for kind in types)

    @classmethod
    def of_batch(cls, batch: PendingBatch, kinds: IntArray) -> PendingColumns:
        """Columns of pending jobs with their kinds, int64 (n,)."""
        return cls(
            ids=batch.ids,
            revisions=batch.revisions,
            queues=batch.queues,
            qos=batch.qos,
            kinds=kinds,
            applications=batch.applications,
            submitted_at=batch.submitted_at,
            is_eligible=batch.is_eligible,
            is_pending=np.ones(len(batch.ids), dtype=bool),
        )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.ids)

    def take(self, rows: IntArray | BoolArray) -> PendingColumns:
        """These rows, copied."""
        return PendingColumns._make(column[rows] for column in self)

    def overwrite(self, rows: IntArray, other: PendingColumns) -> None:
        """Write the values of ``other`` to these rows, in place."""
        for column, values in zip(self, other, strict=True):
            column[rows] = values

    def with_inserted(self, before: IntArray, other: PendingColumns) -> PendingColumns:
        """Insert the rows of ``other``, each before the row of that number. Works in place if all go to the end."""
        return PendingColumns._make(_with(*pair, before) for pair in zip(self, other, strict=True))


def concatenated(parts: list[PendingColumns]) -> PendingColumns:
    """The rows of all parts; there is at least one part."""
    return PendingColumns._make(map(np.concatenate, zip(*parts, strict=True)))


def _with(column: np.ndarray, values: np.ndarray, before: IntArray) -> np.ndarray:
    """The column with values inserted. Values at its end use the extra room there."""
    n, end = len(column), len(column) + len(before)
    if n and int(before[0]) < n:
        return np.insert(column, before, values)
    whole = column.base
    if not isinstance(whole, np.ndarray) or len(whole) < end:
        whole = np.empty(end + end // _ROOM_BEHIND, dtype=column.dtype)
        whole[:n] = column
    whole[n:end] = values
    return whole[:end]

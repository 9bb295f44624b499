"""The scheduler's memory of pending jobs: columns by id, and the kinds of jobs.

A job keeps its row until the table is compacted. Readers may keep row numbers as long as :attr:`PendingTable.layout` is
the same. New jobs go to the end, because ids ascend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from rankd.core.model.index_set import EMPTY, IndexSet
from rankd.core.placement.task_turn import TaskTurn
from rankd.core.ranking.columns import IntArray
from rankd.mirror.pending_columns import PendingColumns, concatenated
from rankd.mirror.pending_kinds import PendingKinds, ReadShape, Rules
from rankd.mirror.row_index import RowIndex
from rankd.store.feed.pending_kind import PendingArray, PendingBatch, PendingTask

_DEAD_AT_LEAST = 10_000


class PendingTable:
    """``columns`` by row, whose ``kinds`` index those of ``known_kinds``.

    ``layout`` grows when rows move, ``changes`` with every change of a job or a kind.
    """

    def __init__(self, rules: Rules) -> None:
        self.columns = PendingColumns.empty()
        self.known_kinds = PendingKinds(rules)
        self.layout = 0
        self.changes = 0
        self.arrays: dict[int, PendingArray] = {}
        """The arrays among the pending jobs, and perhaps some that have none left."""
        self.tasks: dict[int, PendingTask] = {}
        """The pending tasks with records of their own."""
        self.indices: dict[int, IndexSet] = {}
        """Of arrays that have such tasks: the indices that are pending in their records."""
        self._indices_at: dict[int, int] = {}
        """The event of each of these arrays with which its indices were read."""
        self._turns: tuple[int, dict[int, TaskTurn]] = (-1, {})
        """The tasks, and the number of ``changes`` that they include."""
        self._touched_in: dict[int, int] = {}
        """For each leaf, the number of the last change that affected it."""
        self._index = RowIndex()

    def load(self, batches: Iterable[PendingBatch], read_shape: ReadShape) -> None:
        """Begin with all pending jobs, batch by batch."""
        parts = [self._with_kinds(batch, read_shape) for batch in batches]
        if parts:
            self.changes += 1
            self._append(concatenated(parts))

    def put(self, batch: PendingBatch, read_shape: ReadShape) -> None:
        """Add pending jobs; known ones get their new values."""
        self.changes += 1
        new = self._with_kinds(batch, read_shape)
        rows = self.lookup(new.ids)
        known = rows >= 0
        self._touch(self.columns.queues[rows[known]])
        self._touch(new.queues)
        self.columns.overwrite(rows[known], new.take(known))
        if not known.all():
            self._append(new.take(~known))

    def drop(self, ids: Sequence[int]) -> None:
        """Note that these jobs are no longer pending."""
        if self.arrays or self.tasks:
            for id_ in ids:
                self.arrays.pop(id_, None)
                self.tasks.pop(id_, None)
        rows = self.lookup(np.array(ids, dtype=np.int64))
        rows = rows[rows >= 0]
        if len(rows):
            self.changes += 1
            self._touch(self.columns.queues[rows])
            self.columns.is_pending[rows] = False
        n_rows = self.columns.n_rows
        if n_rows - np.count_nonzero(self.columns.is_pending) > max(_DEAD_AT_LEAST, n_rows // 2):
            self.layout += 1
            self.columns = self.columns.take(self.columns.is_pending)
        if self.known_kinds.are_too_many:
            kinds = self.known_kinds.forget(self.columns.kinds, self.columns.is_pending)
            self.columns = self.columns._replace(kinds=kinds)
            self.changes += 1

    def know(self, types: Iterable[str]) -> None:
        """Add resource types that nodes offer or queues limit. Known types stay known."""
        self.changes += self.known_kinds.know(types)

    def tasks_of(self, queue: int, ids: IntArray) -> IntArray | None:
        """The pending tasks of each of these jobs of a leaf, int64 (n,); None if no job is an array."""
        own = sorted((array.id, array.tasks) for array in self.arrays.values() if array.queue == queue)
        if not own or not len(ids):
            return None
        arrays, numbers = (np.array(column, dtype=np.int64) for column in zip(*own, strict=True))
        places = np.minimum(np.searchsorted(arrays, ids), len(arrays) - 1)
        found: IntArray = np.where(arrays[places] == ids, numbers[places], 1)
        return found if (arrays[places] == ids).any() else None

    def array_limits(self) -> dict[int, int]:
        """The limit of each array that has one and of which a task is pending."""
        limits = {task.array: task.limit for task in self.tasks.values() if task.limit is not None}
        return limits | {array.id: array.limit for array in self.arrays.values() if array.limit is not None}

    def read_indices(self, read: Callable[[Collection[int]], Mapping[int, IndexSet]]) -> None:
        """Learn the indices of the arrays that have pending tasks with records of their own, as far as they changed."""
        arrays = {task.array for task in self.tasks.values()} & self.arrays.keys() if self.tasks else set()
        for gone in self.indices.keys() - arrays:
            del self.indices[gone], self._indices_at[gone]
        changed = [array for array in arrays if self._indices_at.get(array) != self.arrays[array].revision]
        if changed:
            self.changes += 1
            found = read(changed)
            self.indices.update({array: found.get(array, EMPTY) for array in changed})
            self._indices_at.update({array: self.arrays[array].revision for array in changed})

    def turns(self) -> Mapping[int, TaskTurn]:
        """The arrays and indices of the pending tasks with records of their own."""
        if not self.tasks:
            return {}
        if self._turns[0] != self.changes:
            turns = {task.id: TaskTurn(task.array, task.task) for task in self.tasks.values()}
            self._turns = (self.changes, turns)
        return self._turns[1]

    def lookup(self, ids: IntArray) -> IntArray:
        """Rows of jobs; -1 for unknown ones."""
        return self._index.lookup(self.columns.ids, self.layout, ids)

    def touched_since(self, changes: int) -> set[int]:
        """The leaves in which jobs appeared, left or changed after that number of ``changes``; without :meth:`load`."""
        return {queue for queue, at in self._touched_in.items() if at > changes}

    def leaves_beyond(self, revision: int) -> set[int]:
        """The leaves of pending jobs whose last event is newer than this one."""
        columns = self.columns
        return set(np.unique(columns.queues[columns.is_pending & (columns.revisions > revision)]).tolist())

    def _touch(self, queues: IntArray) -> None:
        self._touched_in.update(dict.fromkeys(np.unique(queues).tolist(), self.changes))

    def _with_kinds(self, batch: PendingBatch, read_shape: ReadShape) -> PendingColumns:
        return PendingColumns.of_batch(batch, self.known_kinds.of_batch(batch, read_shape))

    def _append(self, new: PendingColumns) -> None:
        """Insert unknown jobs at the place of their ids, which is the end for new jobs."""
        new = new.take(np.argsort(new.ids, kind="stable"))
        before = np.searchsorted(self.columns.ids, new.ids)
        if self.columns.n_rows and int(before[0]) < self.columns.n_rows:
            self.layout += 1  # an old job has come back, so the rows after it move
        self.columns = self.columns.with_inserted(before, new)

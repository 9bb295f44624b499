"""The scheduler's memory of pending jobs: columns by id, and the kinds that jobs are of.

A job keeps its row until the table is compacted, so that whoever has looked rows up may keep them as long as
:attr:`PendingTable.layout` stays. New jobs go to the end: ids ascend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray
from rankd.mirror.row_index import RowIndex

_COLUMNS = """j.id, j.revision, j.queue_id, j.qos_id, coalesce(j.application_id, -1), j.submitted_at,
    j.eligible_at IS NOT NULL, j.shape, j.time_limit_s, {}"""
IS_ELIGIBLE = 6
"""Which of these columns says whether the job is neither held nor blocked."""

SHAPE = """
SELECT q.partition, j.nodes, j.min_nodes, j.resources, j.constraints, j.exclusive
FROM jobs j JOIN queues q ON q.id = j.queue_id WHERE j.id = ?"""

ANY_APPLICATION = -2

_INTEGERS = ("ids", "revisions", "queues", "qos", "kinds", "applications")
_DEAD_AT_LEAST = 10_000
_KINDS_AT_LEAST = 4_096

_ROOM_BEHIND = 16
"""Columns have a sixteenth of their length to grow."""

_Column = TypeVar("_Column", IntArray, FloatArray, BoolArray)
Row = Sequence[object]
ReadShape = Callable[[int], Sequence[object]]
"""A job's row of :data:`SHAPE`."""


class Rules(NamedTuple):
    """What tells kinds apart beside the shape and the time limit: leaves whose users, whose applications count."""

    default_time_limit_s: float | None
    by_user: frozenset[int]
    by_application: frozenset[int]

    @property
    def columns(self) -> str:
        """Of table jobs as j, what :meth:`PendingTable.put` takes; names of users only where they count."""
        return _COLUMNS.format('j."user", j.groups' if self.by_user else "NULL, NULL")


class _Batch(NamedTuple):
    """Pending jobs: int64 (n, 6), columns as ``_INTEGERS`` has them; float64 (n,), bool (n,)."""

    integers: IntArray
    submitted_at: FloatArray
    is_eligible: BoolArray

    def take(self, places: IntArray) -> _Batch:
        """Some of them."""
        return _Batch(self.integers[places], self.submitted_at[places], self.is_eligible[places])


class KindKey(NamedTuple):
    """A kind as the records know it; ``user`` empty: of any; ``application`` -1: of its own, or any (-2)."""

    shape: int
    time_limit_s: float | None
    user: str
    application: int

    @property
    def is_plain(self) -> bool:
        """Whether neither the user nor the application counts."""
        return not self.user and self.application == ANY_APPLICATION


class PendingTable:
    """Columns int64 (n_rows,), ``submitted_at`` float64; ``kinds`` index :attr:`kind_table`.

    ``is_pending``, bool: whether the job still is. ``is_eligible``: whether it is neither held nor blocked.
    """

    def __init__(self, rules: Rules) -> None:
        self.kind_table = KindTable(known=frozenset())
        self.layout = 0
        self.changes = 0
        self.rules = rules
        self._touched: dict[int, int] = {}
        self._index = RowIndex()
        self._places: dict[tuple[object, ...], int] = {}
        self._keys: list[KindKey] = []
        self._shapes: dict[int, Shape] = {}
        self._most_kinds = _KINDS_AT_LEAST
        self._columns = {name: np.empty(0, dtype=np.int64) for name in _INTEGERS}
        self.submitted_at = np.empty(0)
        self.is_pending: BoolArray = np.empty(0, dtype=bool)
        self.is_eligible: BoolArray = np.empty(0, dtype=bool)

    def __getattr__(self, name: str) -> IntArray:
        """A column."""
        if name in _INTEGERS:
            return self._columns[name]
        raise AttributeError(name)

    def load(self, batches: Iterable[Sequence[Row]], read_shape: ReadShape) -> None:
        """Begin with all pending jobs, some at a time."""
        parts = [self._batch(rows, read_shape) for rows in batches if rows]
        if parts:
            self.changes += 1
            self._append(_Batch(*map(np.concatenate, zip(*parts, strict=True))))

    def put(self, rows: Sequence[Row], read_shape: ReadShape) -> None:
        """Take in pending jobs, known ones as they are now."""
        if not rows:
            return
        self.changes += 1
        batch = self._batch(rows, read_shape)
        places = self.lookup(batch.integers[:, 0])
        known = places >= 0
        at = places[known]
        self._touch(self._columns["queues"][at])
        self._touch(batch.integers[:, 2])
        for column, name in enumerate(_INTEGERS):
            self._columns[name][at] = batch.integers[known, column]
        self.submitted_at[at], self.is_eligible[at] = batch.submitted_at[known], batch.is_eligible[known]
        self.is_pending[at] = True
        if not known.all():
            self._append(batch.take(np.flatnonzero(~known)))

    def _touch(self, queues: IntArray) -> None:
        self._touched.update(dict.fromkeys(np.unique(queues).tolist(), self.changes))

    def touched_since(self, changes: int) -> set[int]:
        """The leaves that jobs came to, left, or changed in after so many ``changes``; not those of :meth:`load`."""
        return {queue for queue, at in self._touched.items() if at > changes}

    def leaves_beyond(self, revision: int) -> set[int]:
        """The leaves of jobs whose last event is a later one."""
        queues = self._columns["queues"][self.is_pending & (self._columns["revisions"] > revision)]
        return set(np.unique(queues).tolist())

    def _batch(self, rows: Sequence[Row], read_shape: ReadShape) -> _Batch:
        """Rows of :attr:`Rules.columns` as columns, with each job's kind."""
        ids, revisions, queues, qos, applications, submitted, eligible, *asked = zip(*rows, strict=True)
        integers = np.empty((len(rows), len(_INTEGERS)), dtype=np.int64)
        for column, values in ((0, ids), (1, revisions), (2, queues), (3, qos), (5, applications)):
            integers[:, column] = values
        counts = np.isin(integers[:, 2], [*self.rules.by_user, *self.rules.by_application])
        alike, firsts = _alike(asked[0], asked[1], np.flatnonzero(~counts))
        kinds = np.zeros(len(rows), dtype=np.int64)
        own = [self._kind(rows[place], read_shape) for place in firsts.tolist()]
        kinds[~counts] = np.array(own, dtype=np.int64)[alike]
        kinds[counts] = [self._kind(rows[place], read_shape) for place in np.flatnonzero(counts).tolist()]
        integers[:, 4] = kinds
        return _Batch(integers, np.array(submitted, dtype=np.float64), np.array(eligible, dtype=bool))

    def _append(self, batch: _Batch) -> None:
        order = np.argsort(batch.integers[:, 0], kind="stable")
        integers, submitted_at, is_eligible = batch.take(order)
        at = np.searchsorted(self._columns["ids"], integers[:, 0])
        if len(self.is_pending) and int(at[0]) < len(self.is_pending):
            self.layout += 1  # an old job has come back: rows behind it move
        for column, name in enumerate(_INTEGERS):
            self._columns[name] = _with(self._columns[name], at, integers[:, column])
        self.submitted_at = _with(self.submitted_at, at, submitted_at)
        self.is_pending = _with(self.is_pending, at, np.ones(len(at), dtype=bool))
        self.is_eligible = _with(self.is_eligible, at, is_eligible)

    def drop(self, ids: Sequence[int]) -> None:
        """These are pending no more."""
        rows = self.lookup(np.array(ids, dtype=np.int64))
        rows = rows[rows >= 0]
        if len(rows):
            self.changes += 1
            self._touch(self._columns["queues"][rows])
            self.is_pending[rows] = False
        if len(self.is_pending) - np.count_nonzero(self.is_pending) > max(_DEAD_AT_LEAST, len(self.is_pending) // 2):
            self._compact()
        if len(self.kind_table) > self._most_kinds:
            self._forget_kinds()

    def know(self, types: Iterable[str]) -> None:
        """Take in which resource types nodes offer and queues limit; those that were known stay known."""
        known = self.kind_table.known or frozenset()
        if new := frozenset(types).difference(known):
            self.kind_table = KindTable(self.kind_table.kinds, new.union(known))
            self.changes += 1

    def _forget_kinds(self) -> None:
        """Keep those alone that pending jobs are of."""
        kinds = self._columns["kinds"]
        kept = np.unique(kinds[self.is_pending])
        places = np.zeros(len(self.kind_table), dtype=np.int64)
        places[kept] = np.arange(len(kept))
        names = {place: key for key, place in self._places.items()}
        self._columns["kinds"] = places[kinds]
        self._places = {names[kind]: place for place, kind in enumerate(kept.tolist())}
        self._keys = [self._keys[kind] for kind in kept.tolist()]
        self.kind_table = KindTable((self.kind_table[kind] for kind in kept.tolist()), self.kind_table.known)
        self._shapes = {key.shape: kind.shape for key, kind in zip(self._keys, self.kind_table.kinds, strict=True)}
        self._most_kinds = max(_KINDS_AT_LEAST, 4 * len(kept))
        self.changes += 1

    def _compact(self) -> None:
        self.layout += 1
        for name in _INTEGERS:
            self._columns[name] = self._columns[name][self.is_pending]
        self.submitted_at, self.is_eligible = self.submitted_at[self.is_pending], self.is_eligible[self.is_pending]
        self.is_pending = self.is_pending[self.is_pending]

    def lookup(self, ids: IntArray) -> IntArray:
        """Rows of jobs; -1 for unknown ones."""
        return self._index.lookup(self._columns["ids"], self.layout, ids)

    def _kind(self, row: Row, read_shape: ReadShape) -> int:
        """The kind of a row of :attr:`Rules.columns`, made if there is none yet."""
        id_, queue, application, shape = (int(row[column]) for column in (0, 2, 4, 7))  # type: ignore[call-overload]
        limit, user, groups = row[8:]
        rules = self.rules
        own_user, own_groups = (str(user), groups) if queue in rules.by_user else ("", None)
        own_application = application if queue in rules.by_application else NO_GROUP
        key = (shape, limit, own_user, own_groups, own_application, queue in rules.by_application)
        place = self._places.get(key)
        if place is None:
            stated = None if limit is None else float(limit)  # type: ignore[arg-type]
            place = self._places[key] = self.kind_table.add(
                Kind(
                    shape=self._shape(shape, id_, read_shape),
                    time_limit_s=rules.default_time_limit_s if stated is None else stated,
                    user=own_user,
                    groups=tuple(json.loads(str(own_groups))) if own_groups else (),
                    application=own_application,
                )
            )
            counts = own_application if queue in rules.by_application else ANY_APPLICATION
            self._keys.append(KindKey(shape, stated, own_user, counts))
        return place

    def _shape(self, key: int, job: int, read_shape: ReadShape) -> Shape:
        if key not in self._shapes:
            partition, nodes, least, resources, constraints, exclusive = read_shape(job)
            self._shapes[key] = Shape(
                partition=str(partition),
                nodes=int(nodes),  # type: ignore[call-overload]
                min_nodes=int(least),  # type: ignore[call-overload]
                resources=json.loads(str(resources)),
                constraints=None if constraints is None else str(constraints),
                exclusive=bool(exclusive),
            )
        return self._shapes[key]

    def key(self, kind: int) -> KindKey:
        """What jobs of a kind have in common in the records."""
        return self._keys[kind]


def _alike(shapes: Sequence[object], limits: Sequence[object], places: IntArray) -> tuple[IntArray, IntArray]:
    """Which of these places ask for the same as long: a group for each, int64 (n,), and the first place of each."""
    of_shape = np.unique(np.array(shapes, dtype=np.int64)[places], return_inverse=True)[1]
    stated = np.nan_to_num(np.array(limits, dtype=np.float64)[places], nan=-1.0)
    values, of_limit = np.unique(stated, return_inverse=True)
    _, firsts, groups = np.unique(of_shape * (len(values) + 1) + of_limit, return_index=True, return_inverse=True)
    return groups, places[firsts]


def _with(column: _Column, at: IntArray, values: _Column) -> _Column:
    """The column with values put in; at its end they go where room has been kept, beside what is there."""
    n, end = len(column), len(column) + len(at)
    if n and int(at[0]) < n:
        return np.insert(column, at, values)
    whole = column.base
    if not isinstance(whole, np.ndarray) or len(whole) < end:
        whole = np.empty(end + end // _ROOM_BEHIND, dtype=column.dtype)
        whole[:n] = column
    whole[n:end] = values
    return whole[:end]

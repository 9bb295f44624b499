"""Pending jobs as the scheduler keeps them: columns, including those that distinguish kinds of jobs.

The statements are text, and the driver's plain rows are converted to columns batch by batch. A million jobs take 2.7 s
of processor time, of which SQLite and its driver take 1.5 s. With SQLAlchemy's rows it was 3.1 s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import bindparam, func, select

from rankd.core.model.index_set import IndexSet, read
from rankd.core.model.job import State
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import by_index, in_order
from rankd.store.schema.table import arrays, jobs

_COLUMNS = """j.id, coalesce(j.settled, j.revision), j.queue_id, j.qos_id, coalesce(j.application_id, -1), j.shape,
    j.submitted_at, j.time_limit_s, j.eligible_at IS NOT NULL, {}"""
_ARRAYS = (
    select(
        jobs.c.id,
        jobs.c.revision,
        func.coalesce(arrays.c.n_eligible, arrays.c.n_pending),
        jobs.c.array_limit,
        jobs.c.queue_id,
    )
    .select_from(in_order(jobs, arrays, arrays.c.job_id == jobs.c.id))
    .where(jobs.c.array.is_not(None))
)
_ALL_ARRAYS = by_index(_ARRAYS, jobs, "jobs_arrays")
_CHANGED_ARRAYS = by_index(_ARRAYS.where(jobs.c.revision > bindparam("revision")), jobs, "jobs_revision")
_ARRAY = jobs.alias("array")
_TASKS = (
    select(jobs.c.id, jobs.c.array_job, _ARRAY.c.array_limit, jobs.c.array_task)
    .join_from(jobs, _ARRAY, _ARRAY.c.id == jobs.c.array_job)
    .where(jobs.c.state == State.PENDING.value)
)
_HAS_TASKS = arrays.c.n_open > arrays.c.n_active
_ALL_TASKS = (
    select(jobs.c.id, jobs.c.array_job, _ARRAY.c.array_limit, jobs.c.array_task)
    .select_from(in_order(arrays, jobs, jobs.c.array_job == arrays.c.job_id))
    .join(_ARRAY, _ARRAY.c.id == jobs.c.array_job)
    .where(_HAS_TASKS, jobs.c.state == State.PENDING.value)
)
"""From the arrays that have any: reading half a million pending jobs for a few tasks takes a second."""
_INDICES = (
    select(jobs.c.id, func.coalesce(arrays.c.eligible, jobs.c.array))
    .join_from(jobs, arrays, arrays.c.job_id == jobs.c.id)
    .where(jobs.c.id.in_(values_of("arrays")), jobs.c.array.is_not(None))
)
_CHANGED_TASKS = by_index(_TASKS.where(jobs.c.revision > bindparam("revision")), jobs, "jobs_revision")
_USERS = 'j."user", j.groups'
_NO_USERS = "NULL, NULL"
_OF_ARRAY = "j.array IS NOT NULL OR j.array_job IS NOT NULL"
_TYPES = [np.int64] * 6 + [np.float64] * 2 + [np.bool_]

BATCH = 20_000
"""Rows that are read at once; they may take some megabytes."""


class PendingBatch(NamedTuple):
    """Pending jobs, each column (n,).

    ``revisions``: the last event of each; of an array, the last one that did not only take tasks from it.
    ``applications``: -1 for none. ``time_limits_s``: NaN for none. ``is_eligible``: neither held nor blocked. ``users``
    and ``groups`` (JSON lists): None if user names were not requested.
    """

    ids: IntArray
    revisions: IntArray
    queues: IntArray
    qos: IntArray
    applications: IntArray
    shapes: IntArray
    submitted_at: FloatArray
    time_limits_s: FloatArray
    is_eligible: BoolArray
    users: Sequence[str | None]
    groups: Sequence[str | None]

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> PendingBatch:
        """Make columns from rows of :data:`_COLUMNS`, at least one row."""
        columns = list(zip(*rows, strict=True))
        arrays = (np.array(column, dtype=kind) for column, kind in zip(columns, _TYPES, strict=False))
        return cls._make([*arrays, *columns[len(_TYPES) :]])


class PendingArray(NamedTuple):
    """An array in which tasks are pending. ``revision``: its last event, also if that only took tasks from it.

    ``tasks``: how many of them may start.
    """

    id: int
    revision: int
    tasks: int
    limit: int | None
    queue: int


class PendingChanges(NamedTuple):
    """Changed jobs. ``pending``: the pending ones, or None; ``gone``: the ids of the others.

    ``of_arrays``: whether any of them is an array with pending tasks, or a task.
    """

    pending: PendingBatch | None
    gone: list[int]
    of_arrays: bool


def all_pending(connection: Connection, *, with_users: bool) -> Iterator[PendingBatch]:
    """Yield every pending job by id, batch by batch."""
    query = f"SELECT {_names(with_users)} FROM jobs j WHERE j.state = 'pending' ORDER BY j.id"
    for rows in stream(connection, query, (), BATCH):
        yield PendingBatch.of_rows(rows)


def changed_jobs(connection: Connection, revision: int, *, with_users: bool) -> Iterator[PendingChanges]:
    """Yield the jobs that had an event after this one, batch by batch."""
    query = f"SELECT {_names(with_users)}, {_OF_ARRAY}, j.state FROM jobs j WHERE j.revision > ?"
    for rows in stream(connection, query, (revision,), BATCH):
        pending = [row[:-2] for row in rows if row[-1] == State.PENDING]
        gone = [row[0] for row in rows if row[-1] != State.PENDING]
        of_arrays = any(row[-2] for row in rows)
        yield PendingChanges(PendingBatch.of_rows(pending) if pending else None, gone, of_arrays)


def all_arrays(connection: Connection) -> list[PendingArray]:
    """Every array in which tasks are pending."""
    return [PendingArray._make(row) for row in connection.execute(_ALL_ARRAYS)]


def changed_arrays(connection: Connection, revision: int) -> list[PendingArray]:
    """The arrays with pending tasks that had an event after this one."""
    return [PendingArray._make(row) for row in connection.execute(_CHANGED_ARRAYS, {"revision": revision})]


class PendingTask(NamedTuple):
    """A pending task with a record of its own. ``limit``: that of its array; ``task``: its index."""

    id: int
    array: int
    limit: int | None
    task: int


def all_tasks(connection: Connection) -> list[PendingTask]:
    """Every pending task with a record of its own."""
    return [PendingTask._make(row) for row in connection.execute(_ALL_TASKS)]


def changed_tasks(connection: Connection, revision: int) -> list[PendingTask]:
    """Those of them that had an event after this one."""
    return [PendingTask._make(row) for row in connection.execute(_CHANGED_TASKS, {"revision": revision})]


def indices_in(connection: Connection, wanted: Collection[int]) -> dict[int, IndexSet]:
    """The indices of each of these arrays that are pending in its record, and may start."""
    rows = connection.execute(_INDICES, {"arrays": wanted})
    return {array: read(indices) for array, indices in rows}


def _names(with_users: bool) -> str:
    return _COLUMNS.format(_USERS if with_users else _NO_USERS)

"""All pending jobs as columns, for a service that reads them at its start and keeps them in memory.

The time for a million rows depends on the number of Python objects made of them. So small values are packed into one
number per row, values shared by all jobs of a shape are read once per shape, and numpy converts the rows in batches.
SQL is text here: rows of SQLAlchemy take three times as long as the driver's (a million jobs: 2.5 s).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import bindparam, exists, func, not_, select

from rankd.core.model.job import State
from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of, written
from rankd.store.engine.plan import by_index
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import arrays, jobs

PENDING = """
SELECT id, association_id << 32 | queue_id, qos_id << 32 | coalesce(application_id, 0),
    (class_value + 2147483648 << 9) | CASE WHEN blocked_by IS NULL THEN 0 ELSE 256 END | urgency, shape,
    time_limit_s, submitted_at, eligible_at, fixed_priority
FROM jobs WHERE state = 'pending' ORDER BY id"""

_SHAPES = select(jobs.c.shape, jobs.c.nodes, jobs.c.vcore, jobs.c.resources).where(jobs.c.id.in_(values_of("jobs")))

_ACTIVE = (
    by_index(select(jobs.c.association_id, func.count()), jobs, "jobs_state")
    .where(
        IS_ACTIVE,
        jobs.c.state.in_(written("allocated", "running")),
        not_(exists(arrays.c.job_id).where(arrays.c.job_id == jobs.c.id)),
    )
    .group_by(jobs.c.association_id)
)
_OF_CLASS = (
    by_index(select(jobs.c.id), jobs, "jobs_state")
    .where(IS_ACTIVE, jobs.c.state == State.PENDING.value, jobs.c.priority_class == bindparam("name"))
    .order_by(jobs.c.id)
)

BATCH = 2_000
"""Rows per batch: few enough to stay in the processor's cache while they are converted to arrays."""

_N_INTEGERS = 5
_LOW = 2**32 - 1

Rows = Sequence[Sequence[object]]


class ShapeRow(NamedTuple):
    """The request of the jobs of a shape. ``resources`` are per node."""

    nodes: int
    vcore: int
    resources: Resources


class PendingJobs(NamedTuple):
    """Columns by id, each (n_jobs,). ``shapes`` are the keys in the records. NaN means not set."""

    ids: IntArray
    associations: IntArray
    queues: IntArray
    qos: IntArray
    applications: IntArray
    class_values: IntArray
    urgencies: IntArray
    blocked: BoolArray
    shapes: IntArray
    time_limits_s: FloatArray
    submitted_at: FloatArray
    eligible_at: FloatArray
    fixed_priorities: FloatArray


class ShapeColumn(NamedTuple):
    """The shapes of jobs: ``keys`` in the records and the ``rows`` for them; by job, ``places`` among these."""

    keys: list[int]
    rows: list[ShapeRow]
    places: IntArray


def read_pending_jobs(connection: Connection) -> PendingJobs:
    """All pending jobs."""
    return pending_jobs(stream(connection, PENDING, (), BATCH))


def read_shapes(connection: Connection, jobs: PendingJobs) -> ShapeColumn:
    """The shapes of these jobs, read from one job of each shape."""
    keys, firsts, places = np.unique(jobs.shapes, return_index=True, return_inverse=True)
    found = shapes_of(connection, jobs.ids[firsts].tolist())
    return ShapeColumn(keys.tolist(), [found[key] for key in keys.tolist()], places)


def active_by_association(connection: Connection) -> dict[int, int]:
    """How many jobs of each association are allocated or running. Arrays count by their tasks."""
    return {association: number for association, number in connection.execute(_ACTIVE)}  # noqa: C416 - typed rows


def jobs_of_class(connection: Connection, name: str) -> IntArray:
    """The pending jobs of a priority class, ascending."""
    return np.array(connection.execute(_OF_CLASS, {"name": name}).scalars().all(), dtype=np.int64)


def shapes_of(connection: Connection, ids: Sequence[int]) -> dict[int, ShapeRow]:
    """The shapes of these jobs by their keys in the records."""
    rows = connection.execute(_SHAPES, {"jobs": ids})
    return {key: ShapeRow(nodes, vcore, json.loads(resources)) for key, nodes, vcore, resources in rows}


def pending_jobs(batches: Iterable[Rows]) -> PendingJobs:
    """Columns from the rows of :data:`PENDING`, in batches of any size."""
    parts: list[list[np.ndarray]] = [list(_arrays(rows)) for rows in batches if rows]
    n_columns = _N_INTEGERS + 4
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else list(_empty(n_columns))
    ids, owners, groups, values, shapes, *floats = columns
    applications = groups & _LOW
    return PendingJobs(
        ids,
        owners >> 32,
        owners & _LOW,
        groups >> 32,
        np.where(applications == 0, NO_GROUP, applications),
        (values >> 9) - 2**31,
        values & 255,
        values & 256 > 0,
        shapes,
        *floats,
    )


def _arrays(rows: Rows) -> Iterator[np.ndarray]:
    for place, column in enumerate(zip(*rows, strict=True)):
        yield np.array(column, dtype=np.int64 if place < _N_INTEGERS else np.float64)


def _empty(n_columns: int) -> Iterator[np.ndarray]:
    for place in range(n_columns):
        yield np.empty(0, dtype=np.int64 if place < _N_INTEGERS else np.float64)

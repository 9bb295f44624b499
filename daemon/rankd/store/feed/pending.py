"""All pending jobs as columns: how a service begins that keeps them in memory.

A million rows are a matter of how many Python objects are made: what is small is packed into one number per row,
what jobs of one shape share is read once per shape, and numpy takes the rows in batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import NO_GROUP, BoolArray, FloatArray, IntArray

PENDING = """
SELECT id, association_id << 32 | queue_id, qos_id << 32 | coalesce(application_id, 0),
    (class_value + 2147483648 << 9) | ((blocked_by IS NOT NULL) << 8) | urgency, shape,
    time_limit_s, submitted_at, eligible_at, fixed_priority
FROM jobs WHERE state = 'pending' ORDER BY id"""

SHAPE = "SELECT nodes, vcore, resources FROM jobs WHERE id = ?"

BATCH = 2_000
"""Rows that stay in the processor's cache while they become arrays."""

_N_INTEGERS = 5
_LOW = 2**32 - 1

Rows = Sequence[Sequence[object]]


class ShapeRow(NamedTuple):
    """What the jobs of a shape ask for: ``resources`` per node."""

    nodes: int
    vcore: int
    resources: Resources


class PendingJobs(NamedTuple):
    """Columns by id, each (n_jobs,); ``shapes`` are the keys that the records have; NaN where not set."""

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


def pending_jobs(batches: Iterable[Rows]) -> PendingJobs:
    """The rows of :data:`PENDING`, however many at a time."""
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


def shape_row(row: Sequence[object]) -> ShapeRow:
    """A row of :data:`SHAPE`."""
    nodes, vcore, resources = row
    return ShapeRow(int(str(nodes)), int(str(vcore)), json.loads(str(resources)))

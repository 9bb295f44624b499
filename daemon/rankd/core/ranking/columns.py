"""Pending jobs as columns (struct of arrays), in order of their ids.

A pass over a million jobs is a few numpy operations on these arrays, without a Python loop over jobs. A group of jobs
(association, queue, QoS, partition, application) is an index into the table of that kind of group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NO_GROUP = -1
"""The index of a job without a group of that kind (no application, no association)."""

N_INTEGERS = 11
"""The number of columns with whole numbers. They come first; the others are float64."""


class JobRow(NamedTuple):
    """One pending job, as the store reads it. Groups are indices, times are UTC seconds, and None means not set.

    ``vcore`` is per node, in thousandths. ``shape`` is an index into the shapes of the pass. ``eligible_at`` is None if
    the job is not eligible: it is held, or it waits for another job or for its begin time.
    """

    id: int
    association: int
    queue: int
    qos: int
    partition: int
    application: int
    class_value: int
    urgency: int
    nodes: int
    vcore: int
    shape: int
    time_limit_s: float | None
    submitted_at: float
    eligible_at: float | None
    fixed_priority: int | None


class JobColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns, each of shape (n_jobs,), sorted by ``ids`` ascending.

    ``eligible_at``, ``time_limit_s`` and ``fixed_priorities`` are NaN where not set.
    """

    ids: IntArray
    associations: IntArray
    queues: IntArray
    qos: IntArray
    partitions: IntArray
    applications: IntArray
    class_values: IntArray
    urgencies: IntArray
    nodes: IntArray
    vcores: IntArray
    shapes: IntArray
    time_limits_s: FloatArray
    submitted_at: FloatArray
    eligible_at: FloatArray
    fixed_priorities: FloatArray

    def __len__(self) -> int:
        """How many jobs."""
        return len(self.ids)

    @property
    def cores(self) -> FloatArray:
        """The cores that each job asks for on all its nodes: nodes times vcore per node. In float64, no overflow."""
        return self.nodes.astype(np.float64) * self.vcores / 1000.0

    @property
    def eligible(self) -> BoolArray:
        """Which jobs may be ranked."""
        return ~np.isnan(self.eligible_at)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[float | int | None]]) -> JobColumns:
        """Columns of rows in any order; each row has the fields of :class:`JobRow`. O(n log n)."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(JobRow._fields)
        integers = [np.array(column, dtype=np.int64) for column in columns[:N_INTEGERS]]
        floats = [np.array(column, dtype=np.float64) for column in columns[N_INTEGERS:]]
        built = cls(**dict(zip(cls.__struct_fields__, [*integers, *floats], strict=True)))  # type: ignore[arg-type]
        return built if _ascending(built.ids) else built.take(np.argsort(built.ids, kind="stable"))

    def take(self, places: NDArray[np.intp]) -> JobColumns:
        """The jobs at ``places``, in that order."""
        return JobColumns(**{name: getattr(self, name)[places] for name in self.__struct_fields__})

    def merge(self, gone: IntArray, rows: Sequence[Sequence[float | int | None]]) -> JobColumns:
        """The columns without the jobs ``gone``, with ``rows``, which replace jobs of the same id. O(n): one copy."""
        added = JobColumns.from_rows(rows)
        if not len(self):
            return added
        leaving = np.concatenate([gone, added.ids])
        places = np.minimum(np.searchsorted(self.ids, leaving), len(self) - 1)
        stays = np.ones(len(self), dtype=bool)
        stays[places[self.ids[places] == leaving]] = False
        if stays.all() and not len(added):
            return self
        return self._with(np.flatnonzero(stays), added)

    def _with(self, kept: NDArray[np.intp], added: JobColumns) -> JobColumns:
        """The jobs at ``kept`` and those of ``added``, by id. There must be a job: it fills the gaps first."""
        before = np.searchsorted(self.ids[kept], added.ids)
        merged = self.take(np.insert(kept, before, 0))
        for name in self.__struct_fields__:
            getattr(merged, name)[before + np.arange(len(added))] = getattr(added, name)
        return merged


def _ascending(ids: IntArray) -> bool:
    return bool((ids[1:] > ids[:-1]).all())

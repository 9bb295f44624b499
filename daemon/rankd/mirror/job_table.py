"""The prioritizer's memory of jobs: pending ones as columns, later changes as rows, and which jobs are blocked.

The columns stay unchanged while changes arrive, because copying a million jobs takes longer than ranking them.
:func:`merged` makes new columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.model.job import State
from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import NO_GROUP, IntArray, JobColumns, JobRow
from rankd.mirror.blocked_jobs import BlockedJobs
from rankd.store.feed.job import ChangedJob, ChangedJobs, LoadedJobs
from rankd.store.feed.pending import PendingJobs, ShapeColumn, ShapeRow

_PENDING = State.PENDING.value
MANY_CHANGES = 10_000
"""A standby merges this many changed jobs into its columns. The merge takes 50 ms for a million jobs."""


class JobChanges(NamedTuple):
    """The changes of jobs.

    ``gone``: jobs that are no longer pending. ``rows``: pending ones as they are now. ``moved_nodes``: whether a job
    has taken or released nodes. ``is_shown``: whether a generation would show any of these changes. ``tasks``: the
    number of pending tasks of each array.
    """

    gone: list[int]
    rows: list[JobRow]
    moved_nodes: bool
    is_shown: bool
    tasks: Mapping[int, int] = {}


class Snapshot(NamedTuple):
    """Columns, and later changes: rows by job, None for jobs that are not pending. ``tasks``: those of arrays."""

    columns: JobColumns
    changed: dict[int, JobRow | None]
    tasks: Mapping[int, int] = {}


def merged(snapshot: Snapshot) -> JobColumns:
    """All pending jobs as columns. O(n_jobs) if a job has changed, so call it in a thread."""
    changed = snapshot.changed
    if not changed:
        return snapshot.columns
    gone = np.array([job for job, row in changed.items() if row is None], dtype=np.int64)
    return snapshot.columns.merge(gone, [row for row in changed.values() if row is not None])


class Membership(NamedTuple):
    """Data that jobs' records lack: the partition's index of each queue, and the associations outside the tree."""

    partitions: dict[int, int]
    outside: frozenset[int]


class JobTable:
    """Pending jobs. ``revision``: the last known event; ``amounts``: the total request of each shape."""

    def __init__(self) -> None:
        self.revision = 0
        self.new_jobs = 0
        """How many jobs became eligible and are in no generation yet. The writer of a generation subtracts its jobs."""
        self.largest_qos = -1
        """The largest QoS id of any job so far."""
        self.is_loaded = False
        self.blocked = BlockedJobs()
        self.amounts: list[Resources] = []
        self.shapes: dict[int, int] = {}
        """The index in :attr:`amounts` of each shape, by the records' key."""
        self.tasks: dict[int, int] = {}
        """The number of pending tasks of each array."""
        self._columns = JobColumns.from_rows([])
        self._changed: dict[int, JobRow | None] = {}

    def load(self, found: LoadedJobs, membership: Membership) -> None:
        """Start with these jobs."""
        self.revision = found.revision
        self._columns = self._built(found.pending, found.shapes, membership)
        self.new_jobs += found.new_jobs
        self.largest_qos = int(found.pending.qos.max(initial=-1))
        self.blocked.replace([], found.blocked)
        self.blocked.look_at_all()
        self.tasks = dict(found.tasks)
        self.is_loaded = True

    def _built(self, jobs: PendingJobs, shapes: ShapeColumn, membership: Membership) -> JobColumns:
        own = [self._shape(key, row) for key, row in zip(shapes.keys, shapes.rows, strict=True)]
        partition_of = _by_queue(membership.partitions)
        outside = np.isin(jobs.associations, np.array(sorted(membership.outside), dtype=np.int64))
        return JobColumns(
            ids=jobs.ids,
            associations=np.where(outside, NO_GROUP, jobs.associations),
            queues=jobs.queues,
            qos=jobs.qos,
            partitions=partition_of[jobs.queues],
            applications=jobs.applications,
            class_values=jobs.class_values,
            urgencies=jobs.urgencies,
            nodes=np.array([row.nodes for row in shapes.rows], dtype=np.int64)[shapes.places],
            vcores=np.array([row.vcore for row in shapes.rows], dtype=np.int64)[shapes.places],
            shapes=np.array(own, dtype=np.int64)[shapes.places],
            time_limits_s=jobs.time_limits_s,
            submitted_at=jobs.submitted_at,
            eligible_at=jobs.eligible_at,
            fixed_priorities=jobs.fixed_priorities,
        )

    def apply(self, changes: ChangedJobs, membership: Membership) -> JobChanges:
        """Add the changes since the last call."""
        before, self.revision = self.revision, changes.revision
        self.blocked.replace([job.id for job in changes.jobs], changes.blocked)
        self.blocked.note(changes.jobs)
        for key, row in changes.shapes.items():
            self._shape(key, row)
        self.new_jobs += sum(_is_new(job, before) for job in changes.jobs)
        return self._noted(changes.jobs, membership)

    def _noted(self, jobs: Sequence[ChangedJob], membership: Membership) -> JobChanges:
        self._note_tasks(jobs)
        pending = [self._row(job, membership) for job in jobs if job.state == _PENDING]
        others = [job for job in jobs if job.state != _PENDING]
        gone = [job.id for job in others]
        is_shown = bool(pending) or any(self._is_pending(job) for job in gone)
        moved_nodes = any(job.state != State.RUNNING for job in others)
        self._changed |= dict.fromkeys(gone) | {row.id: row for row in pending}
        self.largest_qos = max([self.largest_qos, *(row.qos for row in pending)])
        return JobChanges(gone, pending, moved_nodes, is_shown, self.tasks)

    def _note_tasks(self, jobs: Sequence[ChangedJob]) -> None:
        changed = {job.id: job.tasks for job in jobs if job.tasks != 1 and job.state == _PENDING}
        if self.tasks or changed:  # a new object: a pass may be reading the one before
            gone = {job.id for job in jobs}
            self.tasks = {job: number for job, number in self.tasks.items() if job not in gone} | changed

    def _is_pending(self, job: int) -> bool:
        if job in self._changed:
            return self._changed[job] is not None
        place = int(np.searchsorted(self._columns.ids, job))
        return place < len(self._columns) and int(self._columns.ids[place]) == job

    def _row(self, job: ChangedJob, membership: Membership) -> JobRow:
        (id_, association, queue, qos, application, class_value, urgency, nodes, vcore, shape, limit, submitted,
         eligible, fixed, *_rest) = job  # fmt: skip
        association = NO_GROUP if association in membership.outside else association
        application = NO_GROUP if application is None else application
        partition = membership.partitions.get(queue, 0)
        return JobRow(id_, association, queue, qos, partition, application, class_value, urgency, nodes, vcore,
                      self.shapes[shape], limit, submitted, eligible, fixed)  # fmt: skip

    def _shape(self, key: int, row: ShapeRow) -> int:
        """The index of a shape in :attr:`amounts`."""
        if key not in self.shapes:
            self.shapes[key] = len(self.amounts)
            self.amounts.append({kind: amount * row.nodes for kind, amount in row.resources.items()})
        return self.shapes[key]

    def set_partitions(self, partitions: dict[int, int]) -> None:
        """Use other indices for the partitions; ``partitions`` has them by queue."""
        of_queue = _by_queue(partitions, int(self._columns.queues.max(initial=0)))
        self._columns = msgspec.structs.replace(self._columns, partitions=of_queue[self._columns.queues])
        self._changed = {
            job: None if row is None else row._replace(partition=partitions.get(row.queue, 0))
            for job, row in self._changed.items()
        }

    def forget(self) -> None:
        """Forget all jobs until the next :meth:`load`; :attr:`new_jobs` stays."""
        self.revision, self.largest_qos, self.is_loaded = 0, -1, False
        self.blocked.clear()
        self.tasks = {}
        self.amounts, self.shapes = [], {}  # the old list belongs to an order of jobs that is still in use
        self._columns, self._changed = JobColumns.from_rows([]), {}

    def stand_by(self) -> None:
        """Keep the memory small while another instance decides; all blocked jobs have to be looked at later."""
        if len(self._changed) > MANY_CHANGES:
            snapshot = self.snapshot()
            self.adopt(snapshot, merged(snapshot))
        if self.blocked.take_due(-math.inf):
            self.blocked.look_at_all()

    def snapshot(self) -> Snapshot:
        """The present jobs, for :func:`merged`. It does not include later changes."""
        return Snapshot(self._columns, dict(self._changed), self.tasks)

    def adopt(self, snapshot: Snapshot, columns: JobColumns) -> None:
        """Keep the columns into which the snapshot was merged, and the changes since the snapshot."""
        self._columns = columns
        merged_rows = snapshot.changed
        self._changed = {
            job: row for job, row in self._changed.items() if job not in merged_rows or merged_rows[job] is not row
        }


def _is_new(job: ChangedJob, before: int) -> bool:
    """Whether the job may start and could not at the event ``before``, as far as one can tell.

    An array that only lost tasks is not new.
    """
    settled = job.revision if job.settled is None else job.settled
    return job.state == _PENDING and job.eligible_at is not None and settled > before


def _by_queue(partitions: dict[int, int], largest: int = 0) -> IntArray:
    """The partitions' indices, by the ids of queues up to the ``largest``; 0 for unknown ones."""
    of_queue = np.zeros(max(largest, *partitions, 0) + 1, dtype=np.int64)
    of_queue[list(partitions)] = list(partitions.values())
    return of_queue

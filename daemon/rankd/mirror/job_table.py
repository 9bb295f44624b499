"""The prioritizer's memory of jobs: pending ones as columns, what changed since as rows, and who waits for whom.

All of it can be read again from the database. The columns are left as they are while changes come in, since
copying a million jobs takes longer than ranking one; :func:`merged` makes new ones.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankd.core.admission.dependency import Blocked
from rankd.core.model.job import Dependency, State
from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import NO_GROUP, IntArray, JobColumns, JobRow
from rankd.store.engine.connection import Connection
from rankd.store.feed.pending import BATCH, PENDING, SHAPE, PendingJobs, Rows, pending_jobs, shape_row
from rankd.store.record.job import last_id

_CHANGED = """
SELECT id, association_id, queue_id, qos_id, application_id, class_value, urgency, nodes, vcore, shape,
    time_limit_s, submitted_at, eligible_at, fixed_priority, state, resources, revision, blocked_by
FROM jobs WHERE revision > ? ORDER BY revision LIMIT ?"""

_BLOCKED = """
SELECT j.id, j.held, j.begin_at, j.depends_on FROM json_each(?) w JOIN jobs j ON j.id = w.value
WHERE j.state = 'pending' AND j.blocked_by IS NOT NULL"""

ALL = -1
"""No limit."""

_DEPENDENCIES = msgspec.json.Decoder(list[Dependency])


class JobChanges(NamedTuple):
    """What happened to jobs.

    ``gone``: those that are not pending any more. ``rows``: pending ones as they are now. ``moved_room``:
    whether any has got or given back nodes. ``is_shown``: whether a generation would show any of it.
    """

    gone: list[int]
    rows: list[JobRow]
    moved_room: bool
    is_shown: bool


class Snapshot(NamedTuple):
    """Columns, and what has changed since they were made: rows by job, None for jobs that are not pending."""

    columns: JobColumns
    changed: dict[int, JobRow | None]


def merged(snapshot: Snapshot) -> JobColumns:
    """All pending jobs. O(n_jobs) if any has changed; for a thread."""
    changed = snapshot.changed
    if not changed:
        return snapshot.columns
    gone = np.array([job for job, row in changed.items() if row is None], dtype=np.int64)
    return snapshot.columns.merge(gone, [row for row in changed.values() if row is not None])


class Places(NamedTuple):
    """What a job's row does not say: its queue's partition by id, and the associations outside of the tree."""

    partitions: dict[int, int]
    outside: frozenset[int]


class JobTable:
    """Pending jobs. ``revision``: the last event that is known; ``amounts``: what each shape asks for in all."""

    def __init__(self) -> None:
        self.revision = 0
        self.new_jobs = 0
        """How many became eligible since somebody last set this to 0."""
        self.is_loaded = False
        self.blocked: dict[int, Blocked] = {}
        self.waiting_for: dict[int, set[int]] = {}
        """By job those that depend on it."""
        self.begins: dict[int, float] = {}
        """Begin times of blocked jobs that have one."""
        self.amounts: list[Resources] = []
        self._shapes: dict[int, int] = {}
        self._columns = JobColumns.from_rows([])
        self._changed: dict[int, JobRow | None] = {}

    def load(self, connection: sqlite3.Connection, places: Places) -> None:
        """Begin with all pending jobs, by the driver itself: rows of SQLAlchemy would take three times as long."""
        execute = connection.execute
        self.revision = int((execute("SELECT seq FROM sqlite_sequence WHERE name = 'job_events'").fetchone() or [0])[0])
        found = pending_jobs(_batches(connection))
        self._columns = self._built(found, execute, places)
        ranked = execute("SELECT coalesce(max(revision), 0) FROM generations").fetchone()[0]
        query = (
            "SELECT count(*) FROM jobs INDEXED BY jobs_revision"
            " WHERE revision > ? AND state = 'pending' AND eligible_at IS NOT NULL"
        )
        self.new_jobs += int(execute(query, (ranked,)).fetchone()[0])
        blocked = json.dumps(found.ids[found.blocked].tolist())
        self._take_blocked(execute(_BLOCKED, (blocked,)).fetchall())
        self.is_loaded = True

    def _built(self, found: PendingJobs, execute: Callable[..., Any], places: Places) -> JobColumns:
        keys, firsts, shapes = np.unique(found.shapes, return_index=True, return_inverse=True)
        rows = [shape_row(execute(SHAPE, (job,)).fetchone()) for job in found.ids[firsts].tolist()]
        own = [self._shape(key, *row) for key, row in zip(keys.tolist(), rows, strict=True)]
        partition_of = _by_queue(places.partitions)
        outside = np.isin(found.associations, np.array(sorted(places.outside), dtype=np.int64))
        return JobColumns(
            ids=found.ids,
            associations=np.where(outside, NO_GROUP, found.associations),
            queues=found.queues,
            qos=found.qos,
            partitions=partition_of[found.queues],
            applications=found.applications,
            class_values=found.class_values,
            urgencies=found.urgencies,
            nodes=np.array([row.nodes for row in rows], dtype=np.int64)[shapes],
            vcores=np.array([row.vcore for row in rows], dtype=np.int64)[shapes],
            shapes=np.array(own, dtype=np.int64)[shapes],
            time_limits_s=found.time_limits_s,
            submitted_at=found.submitted_at,
            eligible_at=found.eligible_at,
            fixed_priorities=found.fixed_priorities,
        )

    def read(self, connection: Connection, places: Callable[[], Places], limit: int = ALL) -> JobChanges:
        """Take in what has changed since, oldest first; at most ``limit`` jobs."""
        newest = last_id(connection, "job_events")
        if newest == self.revision:
            return JobChanges([], [], moved_room=False, is_shown=False)
        cursor = connection.connection.cursor()  # the driver's: rows of SQLAlchemy would take twice as long
        found = cursor.execute(_CHANGED, (self.revision, limit)).fetchall()
        cursor.close()
        self.revision = found[-1][16] if len(found) == limit else newest
        self._forget_blocked(row[0] for row in found)
        if any(row[17] is not None for row in found):
            ids = json.dumps([row[0] for row in found])
            self._take_blocked(connection.exec_driver_sql(_BLOCKED, (ids,)).all())
        return self._taken(found, places() if found else Places({}, frozenset()))

    def _taken(self, found: Any, places: Places) -> JobChanges:  # noqa: ANN401 - database rows
        pending = [self._row(row, places) for row in found if row[14] == State.PENDING]
        over = [row[0] for row in found if row[14] != State.PENDING]
        is_shown = bool(pending) or any(self._is_pending(job) for job in over)
        moved_room = any(row[14] not in (State.PENDING, State.RUNNING) for row in found)
        self._changed |= dict.fromkeys(over) | {row.id: row for row in pending}
        self.new_jobs += sum(row.eligible_at is not None for row in pending)
        return JobChanges(over, pending, moved_room, is_shown)

    def _is_pending(self, job: int) -> bool:
        if job in self._changed:
            return self._changed[job] is not None
        place = int(np.searchsorted(self._columns.ids, job))
        return place < len(self._columns) and int(self._columns.ids[place]) == job

    def place(self, partitions: dict[int, int]) -> None:
        """Other places of partitions, by queue."""
        of_queue = _by_queue(partitions, int(self._columns.queues.max(initial=0)))
        self._columns = msgspec.structs.replace(self._columns, partitions=of_queue[self._columns.queues])
        self._changed = {
            job: None if row is None else row._replace(partition=partitions.get(row.queue, 0))
            for job, row in self._changed.items()
        }

    def forget(self) -> None:
        """Begin anew with :meth:`load`."""
        new_jobs = self.new_jobs
        self.__init__()  # type: ignore[misc]
        self.new_jobs = new_jobs

    def snapshot(self) -> Snapshot:
        """What :func:`merged` takes; changes that come later are not in it."""
        return Snapshot(self._columns, dict(self._changed))

    def adopt(self, snapshot: Snapshot, columns: JobColumns) -> None:
        """Keep the merged columns, and what has changed since the snapshot."""
        self._columns = columns
        taken = snapshot.changed
        self._changed = {job: row for job, row in self._changed.items() if job not in taken or taken[job] is not row}

    def _row(self, row: Any, places: Places) -> JobRow:  # noqa: ANN401 - a database row
        (id_, association, queue, qos, application, class_value, urgency, nodes, vcore, shape, limit, submitted,
         eligible, fixed, _, resources, *_rest) = row  # fmt: skip
        place = self._shapes.get(shape)
        if place is None:
            place = self._shape(shape, nodes, vcore, json.loads(resources))
        group = NO_GROUP if application is None else application
        partition = places.partitions.get(queue, 0)
        association = NO_GROUP if association in places.outside else association
        return JobRow(id_, association, queue, qos, partition, group, class_value, urgency, nodes, vcore, place, limit,
                      submitted, eligible, fixed)  # fmt: skip

    def _shape(self, key: int, nodes: int, _vcore: int, resources: Resources) -> int:
        """The place of a shape among the amounts."""
        if key not in self._shapes:
            self._shapes[key] = len(self.amounts)
            self.amounts.append({kind: amount * nodes for kind, amount in resources.items()})
        return self._shapes[key]

    def _forget_blocked(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            known = self.blocked.pop(job, None)
            self.begins.pop(job, None)
            for dependency in () if known is None else known.depends_on:
                if isinstance(dependency.job, int):
                    self.waiting_for.get(dependency.job, set()).discard(job)

    def _take_blocked(self, rows: Any) -> None:  # noqa: ANN401 - database rows
        for id_, held, begin_at, depends_on in rows:
            dependencies = tuple(_DEPENDENCIES.decode(depends_on)) if depends_on else ()
            self.blocked[id_] = Blocked(job=id_, held=bool(held), begin_at=begin_at, depends_on=dependencies)
            if begin_at is not None:
                self.begins[id_] = begin_at
            for dependency in dependencies:
                if isinstance(dependency.job, int):
                    self.waiting_for.setdefault(dependency.job, set()).add(id_)


def _by_queue(partitions: dict[int, int], largest: int = 0) -> IntArray:
    """The partitions' places, by the ids of queues up to the ``largest``; 0 for unknown ones."""
    of_queue = np.zeros(max(largest, *partitions, 0) + 1, dtype=np.int64)
    of_queue[list(partitions)] = list(partitions.values())
    return of_queue


def _batches(connection: sqlite3.Connection) -> Iterator[Rows]:
    """The rows of :data:`.pending.PENDING`, some at a time."""
    cursor = connection.execute(PENDING)
    while rows := cursor.fetchmany(BATCH):
        yield rows

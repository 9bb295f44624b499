"""What is known of an array's tasks together, kept with every event of a task; and the array's end with its last task.

That is the numbers of tasks, the first start, the last end, and the highest exit status.

The cost of an event does not depend on the number of tasks. Uses SQLAlchemy Core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import and_, bindparam, case, func, or_, select, update

from rankd.core.change.array_end import COUNTED, Marks, array_end, counts_of, end_of_array, marks_of
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
_ADD = (
    update(arrays).where(_OF.job_id == bindparam("of")).values({name: _OF[name] + bindparam(name) for name in COUNTED})
)
_ENDED = (
    update(arrays)
    .where(_OF.job_id == bindparam("of"))
    .values(ended_at=case((_OF.ended_at > bindparam("at"), _OF.ended_at), else_=bindparam("at")))
)
_STARTED = (
    update(jobs)
    .where(jobs.c.id == bindparam("of"), or_(jobs.c.started_at.is_(None), jobs.c.started_at > bindparam("at")))
    .values(started_at=bindparam("at"))
)
_STATUS, _SIGNAL = func.coalesce(jobs.c.exit_status, 0), func.coalesce(jobs.c.signal, 0)
_WORSE = (
    update(jobs)
    .where(
        jobs.c.id == bindparam("of"),
        or_(bindparam("status") > _STATUS, and_(bindparam("status") == _STATUS, bindparam("by_signal") > _SIGNAL)),
    )
    .values(exit_status=bindparam("status"), signal=bindparam("by_signal"))
)
_OVER = (
    select(_OF.job_id, _OF.ended_at, _OF.n_completed, _OF.n_failed, _OF.n_cancelled)
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


def count_tasks(
    connection: Connection, changes: Sequence[Change], array_of: Mapping[int, int], now: float
) -> list[Change]:
    """Add these changes of tasks to what is known of their arrays; returns the ends of arrays with no task left.

    ``array_of``: the arrays of the jobs that are tasks.
    """
    if not array_of:
        return []
    _mark(connection, marks_of(changes, array_of))
    sums = {array: added for array, added in counts_of(changes, array_of).items() if added}
    run_each(
        connection, _ADD, [{"of": array} | {name: added[name] for name in COUNTED} for array, added in sums.items()]
    )
    return ends_of(connection, [array for array, added in sums.items() if added["n_open"]], now)


def _mark(connection: Connection, marks: Mapping[int, Marks]) -> None:
    """Keep the first start and the highest exit status in the records of arrays, and the last end in their rows.

    The records get no event: a start of a task changes neither the state nor the rank of its array.
    """
    items = marks.items()
    starts = [{"of": array, "at": mark.started_at} for array, mark in items if mark.started_at is not None]
    run_each(connection, _STARTED, starts)
    run_each(
        connection, _ENDED, [{"of": array, "at": mark.ended_at} for array, mark in items if mark.ended_at is not None]
    )
    codes = [(array, *mark.exit_code) for array, mark in items if any(mark.exit_code)]
    run_each(connection, _WORSE, [{"of": array, "status": code, "by_signal": by} for array, code, by in codes])


def ends_of(connection: Connection, ids: Sequence[int], now: float) -> list[Change]:
    """The ends of those of these arrays that have no task left: at the last end of a task, or else now."""
    if not ids:
        return []
    rows = connection.execute(_OVER, {"arrays": ids})
    return [
        end_of_array(array, array_end(*numbers), now if ended_at is None else ended_at)
        for array, ended_at, *numbers in rows
    ]

"""What the records have of a job that is to be submitted again: its request, its script, and the states of its tasks.

Uses SQLAlchemy Core: the tasks of an array are read as ranges of indices, 0.4 s for a million tasks.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, bindparam, func, select

from rankd.core.admission.permission import OwnedJob, check
from rankd.core.admission.submitter import Submitter
from rankd.core.change.retry import OldJob, OldTasks, Wish
from rankd.core.errors import Refused
from rankd.core.model.array import ArraySpan, JobName, parse_array
from rankd.core.model.index_set import EMPTY, MOST_RANGES, IndexSet, common, count, read, too_large, union, without
from rankd.core.model.job import FINAL_STATES, JobRequest, State
from rankd.core.model.notification import Notify
from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_id
from rankd.store.engine.listed import values_of
from rankd.store.engine.plan import most
from rankd.store.engine.word import TEXTS
from rankd.store.record.array_match import FEW, counterparts, outcome_of
from rankd.store.schema.table import array_requests, arrays, job_notifications, job_scripts, jobs

MOST_ISLANDS = 4 * MOST_RANGES
"""The most ranges of tasks that are read: far more than a new array may have."""

_REQUEST = msgspec.json.Decoder(JobRequest)
_OF = jobs.c
_NAMED = select(_OF.array_job, _OF.array_task).where(_OF.id == bindparam("job"))
_OWN_REQUEST = (
    select(func.coalesce(array_requests.c.request, _OF.request))
    .join_from(jobs, array_requests, array_requests.c.id == _OF.request_id, isouter=True)
    .where(_OF.array_job == bindparam("array"), _OF.array_task == bindparam("task"))
)
_STATES = select(_OF.id, _OF.state).where(_OF.id.in_(values_of("jobs")))
_OLD = (
    select(
        _OF.user,
        _OF.state,
        _OF.blocked_by,
        _OF.request,
        _OF.array,
        _OF.array_limit,
        job_scripts.c.script,
        job_notifications.c.notify,
        arrays.c.job_id.label("is_array"),
        func.coalesce(arrays.c.n_told, arrays.c.n_tasks).label("told"),
        arrays.c.first,
        arrays.c.last,
        arrays.c.step,
        arrays.c.cancelled,
    )
    .select_from(
        jobs.outerjoin(job_scripts, job_scripts.c.job_id == _OF.id)
        .outerjoin(arrays, arrays.c.job_id == _OF.id)
        .outerjoin(job_notifications, job_notifications.c.job_id == _OF.id)
    )
    .where(_OF.id == bindparam("job"))
)


def _islands(states: str) -> Select[Any]:
    """Ranges of the tasks of an array that are in these states: the first and the last index of each."""
    place: ColumnElement[int] = func.row_number().over(order_by=_OF.array_task)
    tasks = (
        select(_OF.array_task.label("task"), (_OF.array_task - bindparam("step") * place).label("island"))
        .where(_OF.array_job == bindparam("array"), _OF.state.in_(values_of(states, TEXTS)))
        .subquery()
    )
    first, last = func.min(tasks.c.task), func.max(tasks.c.task)
    return select(first, last).group_by(tasks.c.island).order_by(first).limit(most(MOST_ISLANDS + 1))


_TASKS = _islands("states")
_OPEN = [state.value for state in State if state not in FINAL_STATES]
_UNFINISHED = [state.value for state in FINAL_STATES if state is not State.COMPLETED]


def read_old_job(connection: Connection, wish: Wish, asker: Submitter) -> tuple[OldJob, Wish]:
    """The record that a wish is about; and the wish, with the name of a task in place of its record's id.

    Raises:
        Refused: ``unknown_job``, ``job_deleted``, ``not_owner``, ``array_too_large``.
    """
    name = _resolved(connection, wish.name)
    row = connection.execute(_OLD, {"job": name.job}).one_or_none()
    if row is None:
        raise _missing(connection, name)
    check(asker, "job.retry", OwnedJob(name.job, row.user))
    request = _REQUEST.decode(_request_of(connection, name) or row.request)
    if row.script is not None:
        request = msgspec.structs.replace(request, script=bytes(row.script).decode())
    if row.notify is not None:
        request = msgspec.structs.replace(request, notify=msgspec.json.decode(row.notify, type=Notify))
    old = OldJob(name.job, row.user, State(row.state), request, row.blocked_by is not None)
    wish = wish._replace(name=name)
    return (old if row.is_array is None else old._replace(tasks=_tasks(connection, row, old, wish))), wish


def _resolved(connection: Connection, name: JobName) -> JobName:
    """The name of a task, if a job's id is that of a task's record."""
    row = None if name.indices else connection.execute(_NAMED, {"job": name.job}).one_or_none()
    if row is None or row.array_job is None:
        return name
    return JobName(row.array_job, (range(row.array_task, row.array_task + 1),))


def _request_of(connection: Connection, name: JobName) -> str | None:
    """The request of a single task that has a record: it may have been changed alone."""
    if count(name.indices) != 1:
        return None
    [[task]] = name.indices
    found: str | None = connection.execute(_OWN_REQUEST, {"array": name.job, "task": task}).scalar_one_or_none()
    return found


def _missing(connection: Connection, name: JobName) -> Refused:
    if name.job > last_id(connection, "jobs"):
        return Refused("unknown_job", f"there is no job {name}", "id", status=404)
    message = f"job {name.job} ended long ago and was deleted (retention.jobs_s); submit it as a new job"
    return Refused("job_deleted", message, "id", status=404)


def _tasks(connection: Connection, row: Any, old: OldJob, wish: Wish) -> OldTasks:  # noqa: ANN401 - a row
    whole = parse_array(old.request.array or "")
    step = row.step
    still, unfinished = EMPTY, EMPTY
    if old.state not in FINAL_STATES and wish.name.indices:
        still = union(read(row.array), _of(connection, old.id, step, _OPEN))
    if wish.failed:
        unfinished = union(read(row.cancelled), _of(connection, old.id, step, _UNFINISHED))
    span = ArraySpan(row.told, row.first, row.last, row.step)
    unmet = _unmet(connection, row, old, common(wish.name.indices or whole.indices, whole.indices))
    return OldTasks(whole.indices, span, row.array_limit, common(whole.indices, still), unfinished, unmet)


def _unmet(connection: Connection, row: Any, old: OldJob, wanted: IndexSet) -> IndexSet:  # noqa: ANN401 - a row
    """Those of these tasks that wait by index for a task that has not completed.

    Of an array that was deleted, this is no longer known. Tasks without records never started, so they count as such.
    """
    others = counterparts(old.request.depends_on)
    rows = connection.execute(_STATES, {"jobs": others}).all() if others else ()
    states = {job: state for job, state in rows}  # noqa: C416 - a row is no tuple for mypy
    found = EMPTY
    for other in others:
        if other not in states:
            found = union(found, common(wanted, read(row.cancelled)))
        elif states[other] != State.COMPLETED.value:
            found = union(found, without(wanted, _completed(connection, row, old, other, wanted)))
    return found


def _completed(connection: Connection, row: Any, old: OldJob, other: int, wanted: IndexSet) -> IndexSet:  # noqa: ANN401 - a row
    if count(wanted) <= FEW:
        return outcome_of(connection, [other], wanted).completed
    return _of(connection, other, row.step, [State.COMPLETED.value], named=old.id)


def _of(connection: Connection, array: int, step: int, states: list[str], named: int | None = None) -> IndexSet:
    """The tasks in these states. ``named``: the array to name if there are too many ranges, by default this one."""
    rows = connection.execute(_TASKS, {"array": array, "step": step, "states": states}).all()
    if len(rows) > MOST_ISLANDS:
        fewer = f"{array if named is None else named}_[0-99]"
        message = f"the tasks make more than {MOST_ISLANDS} separate ranges; name some of them, such as {fewer}"
        raise too_large(message)
    return union(*((range(first, last + 1, step if last > first else 1),) for first, last in rows))

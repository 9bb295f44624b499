"""Arrays: their rows, and records of their own for tasks that start or are addressed alone.

An array's record has the indices of the tasks that are pending in it. :func:`split_first` and :func:`split_these` take
some of them out and insert a record for each, in the caller's transaction. So each index is in one record at any time.
Tasks share the text of the array's request, as it was when they left it.

Uses SQLAlchemy Core and bulk rows: 64 tasks of one array take as long as the insertion of 64 jobs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, insert, select, update

from rankd.core.admission.dependency import DEPENDENCY
from rankd.core.change.job_change import Change, Value
from rankd.core.model.index_set import (
    IndexSet,
    check_ranges,
    common,
    count,
    each,
    read,
    take,
    take_written,
    union,
    without,
)
from rankd.core.model.index_set import written as written_set
from rankd.core.model.job import Event, State
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection
from rankd.store.engine.last_id import last_ids
from rankd.store.engine.listed import values_of
from rankd.store.record.array_count import ends_of
from rankd.store.record.dependency import dependencies_of, insert_waits
from rankd.store.record.job import EVENT_COLUMNS, apply_changes
from rankd.store.schema.table import array_requests, arrays, jobs

_OWN = (
    "id",
    "revision",
    "state",
    "array",
    "array_limit",
    "array_job",
    "array_task",
    "request",
    "request_id",
    "settled",
)
_UNUSED = (
    "key",
    "started_at",
    "ended_at",
    "exit_status",
    "signal",
    "allocation_id",
    "nodelist",
    "cancelled_by",
    "cancelled_via",
)
_COPIED = tuple(column.name for column in jobs.columns if column.name not in {*_OWN, *_UNUSED})
_TASK_COLUMNS = ("id", "revision", "state", "array_job", "array_task", "request", "request_id", *_COPIED)

_BLOCKED_BY, _ELIGIBLE_AT, _HELD = (_COPIED.index(name) for name in ("blocked_by", "eligible_at", "held"))
_SETS = update(arrays).where(arrays.c.job_id == bindparam("of"))

_ARRAY = (
    select(
        jobs.c.revision,
        jobs.c.settled,
        jobs.c.array,
        jobs.c.request,
        arrays.c.request_id,
        arrays.c.eligible,
        arrays.c.unmet,
        arrays.c.n_eligible,
        *(jobs.c[name] for name in _COPIED),
    )
    .join_from(jobs, arrays, arrays.c.job_id == jobs.c.id)
    .where(jobs.c.id == bindparam("array"), jobs.c.state == State.PENDING.value)
)
_TAKEN = (
    update(arrays)
    .where(arrays.c.job_id == bindparam("of"))
    .values(
        n_pending=arrays.c.n_pending - bindparam("number"),
        n_open=arrays.c.n_open + bindparam("number"),
        request_id=bindparam("request"),
    )
)
_NEW_REQUEST = insert(array_requests).returning(array_requests.c.id)
_STALE_REQUEST = update(arrays).where(arrays.c.job_id.in_(values_of("arrays"))).values(request_id=None)
_REST = (
    select(
        jobs.c.array, arrays.c.n_pending, arrays.c.n_open, arrays.c.n_tasks, arrays.c.n_cancelled, arrays.c.cancelled
    )
    .join_from(jobs, arrays, arrays.c.job_id == jobs.c.id)
    .where(jobs.c.id == bindparam("array"), jobs.c.state == State.PENDING.value)
)
_REST_CANCELLED = (
    update(arrays)
    .where(arrays.c.job_id == bindparam("of"))
    .values(
        n_pending=0,
        n_cancelled=arrays.c.n_cancelled + bindparam("number"),
        cancelled=bindparam("indices"),
        ended_at=bindparam("at"),
    )
)
_WHICH = select(arrays.c.job_id).where(arrays.c.job_id.in_(values_of("jobs")))


class _Array(NamedTuple):
    """A pending array, as a split needs it. ``copied``: the columns that its tasks inherit.

    ``eligible``, ``unmet`` and ``n_eligible``: of an array that waits by index.
    """

    id: int
    revision: int
    settled: int | None
    array: str
    request: str
    request_id: int | None
    eligible: str | None
    unmet: str | None
    n_eligible: int | None
    copied: tuple[Any, ...]

    @property
    def waits_by_index(self) -> bool:
        """Whether only those of its tasks may start whose counterparts have completed."""
        return self.n_eligible is not None


def split_first(connection: Connection, array: int, number: int, actor: str, now: float) -> list[int]:
    """Give the first ``number`` tasks that may start records of their own; returns the ids of these, in order."""
    found = _read(connection, array)
    if found is None:
        return []
    if found.waits_by_index:
        taken, _ = take(read(found.eligible), number)
        return _split(connection, found, taken, written_set(without(read(found.array), taken)), actor, now)
    taken, rest = take_written(found.array, number)
    return _split(connection, found, taken, rest, actor, now)


def split_these(connection: Connection, array: int, wanted: IndexSet, actor: str, now: float) -> dict[int, int]:
    """Give those of these tasks that are pending in the array records of their own; returns the records by index.

    Raises:
        Refused: ``array_too_large``: the rest would have too many ranges.
    """
    found = _read(connection, array)
    if found is None:
        return {}
    present = read(found.array)
    taken, rest = common(present, wanted), without(present, wanted)
    check_ranges(rest)
    ids = _split(connection, found, taken, written_set(rest), actor, now)
    return dict(zip(each(taken), ids, strict=True))


def _read(connection: Connection, array: int) -> _Array | None:
    row = connection.execute(_ARRAY, {"array": array}).one_or_none()
    if row is None or row[2] is None:
        return None
    revision, settled, indices, request, request_id, eligible, unmet, n_eligible, *copied = row
    own = (array, revision, settled, indices, request, request_id, eligible, unmet, n_eligible)
    return _Array(*own, tuple(copied))


def _split(connection: Connection, array: _Array, taken: IndexSet, rest: str, actor: str, now: float) -> list[int]:
    number = count(taken)
    if not number:
        return []
    request = array.request_id
    if request is None:
        request = connection.execute(_NEW_REQUEST, {"array_job": array.id, "request": array.request}).scalar_one()
    settled = array.revision if array.settled is None else array.settled
    columns: dict[str, Value] = {"array": rest, "settled": settled}
    if not rest:
        columns = {"array": None, "settled": None}
    elif array.waits_by_index:
        columns |= _leave_sets(connection, array, taken)
    change = Change(
        job=array.id,
        state=State.PENDING,
        event=Event.SPLIT if rest else Event.RUN_OUT,
        actor=actor,
        detail={"tasks": written_set(taken)},
        columns=columns,
    )
    apply_changes(connection, [change], now)
    connection.execute(_TAKEN, {"of": array.id, "number": number, "request": request})
    return _insert_tasks(connection, array, taken, request, actor, now)


def _leave_sets(connection: Connection, array: _Array, taken: IndexSet) -> dict[str, Value]:
    """Take tasks out of the sets of an array that waits by index. Without a task that may start, it is blocked."""
    eligible, unmet = without(read(array.eligible), taken), without(read(array.unmet), taken)
    values: dict[str, Value] = {"n_eligible": count(eligible), "n_unmet": count(unmet)}
    if array.eligible is not None:
        values |= {"eligible": written_set(eligible), "unmet": written_set(unmet)}
    connection.execute(_SETS.values(values), {"of": array.id})
    is_blocked = array.copied[_BLOCKED_BY] is not None
    return {} if eligible or is_blocked else {"blocked_by": DEPENDENCY, "eligible_at": None}


def _insert_tasks(
    connection: Connection, array: _Array, taken: IndexSet, request: int, actor: str, now: float
) -> list[int]:
    job, event = (last + 1 for last in last_ids(connection, "jobs", "job_events"))
    state, kind = State.PENDING.value, Event.SPLIT.value
    rows, events = [], []
    ready = set(each(common(read(array.eligible), taken)))
    waiting, held = array.copied, {"held": True} if array.copied[_HELD] else {}
    if array.waits_by_index and waiting[_BLOCKED_BY] is None:
        waiting = _replaced(waiting, {_BLOCKED_BY: DEPENDENCY, _ELIGIBLE_AT: None})
    for place, index in enumerate(each(taken)):
        may_start = not array.waits_by_index or index in ready
        copied = array.copied if may_start else waiting
        rows.append((job + place, event + place, state, array.id, index, "", request, *copied))
        since = (array.copied if may_start else waiting)[_ELIGIBLE_AT]
        detail = {"array_job": array.id, "array_task": index, "eligible_at": since, **held}
        events.append((event + place, job + place, kind, state, now, actor, None, json.dumps(detail)))
    bulk_insert(connection, "jobs", _TASK_COLUMNS, rows)
    bulk_insert(connection, "job_events", EVENT_COLUMNS, events)
    blocked = [row[0] for row in rows if row[_BLOCKED_BY - len(_COPIED)] is not None]
    if blocked:
        depends_on = dependencies_of(array.copied[_COPIED.index("depends_on")])
        insert_waits(connection, dict.fromkeys(blocked, depends_on))
    return [row[0] for row in rows]


def _replaced(values: tuple[Any, ...], others: Mapping[int, Value]) -> tuple[Any, ...]:
    return tuple(others.get(place, value) for place, value in enumerate(values))


def which_are_arrays(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Those of these jobs that are arrays."""
    return set(connection.execute(_WHICH, {"jobs": ids}).scalars())


def forget_requests(connection: Connection, ids: Sequence[int]) -> None:
    """Note that the requests of these arrays have changed: tasks that left them keep the one before."""
    connection.execute(_STALE_REQUEST, {"arrays": ids})


def cancel_rests(connection: Connection, changes: Sequence[Change], now: float) -> list[Change]:
    """Cancel what is pending in the records of arrays. ``changes``: the event ``cancel`` of each; returns their events.

    An array of which no task has a record, or only cancelled ones, is cancelled. Any other one has run out of pending
    tasks, and ends with its last task.
    """
    found: list[Change] = []
    for change in changes:
        row = connection.execute(_REST, {"array": change.job}).one()
        gone = union(read(row.array), read(row.cancelled))
        values = {"of": change.job, "number": row.n_pending, "indices": written_set(gone), "at": now}
        connection.execute(_REST_CANCELLED, values)
        told = msgspec.structs.replace(change, detail={**(change.detail or {}), "tasks": row.array})
        found += _events_of_rest(told, is_all=row.n_cancelled + row.n_pending == row.n_tasks)
    return found


def _events_of_rest(change: Change, *, is_all: bool) -> list[Change]:
    if is_all:
        return [_with(change, change.event, {"array": None})]
    return [_with(change, Event.RUN_OUT, {"array": None, "ended_at": None, "settled": None})]


def _with(change: Change, event: Event, columns: Mapping[str, Value]) -> Change:
    return msgspec.structs.replace(change, event=event, columns={**change.columns, **columns})


def end_arrays(connection: Connection, ids: Sequence[int], now: float) -> None:
    """End those of these arrays that have no task left."""
    apply_changes(connection, ends_of(connection, ids, now), now)

"""Tasks without records of their own, as rows like those of records; and who cancelled a job or a task.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from rankd.core.model.array import parse_name
from rankd.core.model.id_range import apart
from rankd.core.model.index_set import EMPTY, IndexSet, common, contains, count, each, read, union, written
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS, IN_TEXTS, value_at
from rankd.wire.job_selection import JobFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Filter = TypeVar("Filter", bound=JobFilter)

MOST_EVENTS = 10_000
"""The most events of an array that are searched for the cancellation of a task, the newest ones."""

_CANCELLATIONS = f"""
SELECT at, actor, cause, coalesce({value_at("detail", "$.cancelled")}, {value_at("detail", "$.tasks")}) AS tasks
FROM (SELECT * FROM job_events WHERE job_id = ? ORDER BY id DESC LIMIT ?) e
WHERE event IN ('cancel', 'run_out', 'match') AND cause IS NOT NULL AND detail IS NOT NULL LIMIT ?"""
"""A cause: tasks that left the array to start have none."""
_WHO = f"""
SELECT j.id, e.actor FROM jobs j JOIN job_events e ON e.id = j.revision
WHERE j.state = 'cancelled' AND e.actor <> 'rankd' AND j.id {IN_NUMBERS}"""
"""By ``rankd`` an array ends whose tasks were all cancelled, one by one."""

_ARRAYS = f"""
SELECT a.job_id, j."array" AS pending, a.cancelled FROM arrays a JOIN jobs j ON j.id = a.job_id
WHERE a.job_id {IN_NUMBERS}"""
_WITH_TASKS = f"""
SELECT a.job_id FROM arrays a
WHERE a.job_id {IN_NUMBERS} AND EXISTS (SELECT 1 FROM jobs t WHERE t.array_job = a.job_id)"""
_STATES = f"(state {IN_TEXTS} OR id IN (SELECT job_id FROM arrays WHERE cancelled IS NOT NULL))"
"""Arrays in any state, if tasks of them were cancelled without records."""

_OF_THE_WHOLE = ("started_at", "ended_at", "exit_status", "signal")
"""Columns of an array's record that say nothing about its tasks that never ran."""


class Cancellation(NamedTuple):
    """When (UTC seconds), by whom and why tasks were cancelled that had no records. None: it is not known any more."""

    at: float | None = None
    by: str | None = None
    cause: str | None = None


def cancellation(connection: Reader, array: int, task: int | None = None) -> Cancellation:
    """The cancellation of a task that had no record; without ``task`` the last one of such tasks of the array."""
    most = 1 if task is None else MOST_EVENTS
    for row in fetch(connection, _CANCELLATIONS, [array, MOST_EVENTS, most]):
        if task is None or contains(read(row["tasks"]), task):
            return Cancellation(row["at"], row["actor"], row["cause"])
    return Cancellation()


def who_cancelled(connection: Reader, ids: Sequence[int]) -> Mapping[int, str]:
    """Who cancelled those of these jobs that were cancelled, as far as it is known."""
    return {row["id"]: row["actor"] for row in fetch(connection, _WHO, [json.dumps(ids)])} if ids else {}


def as_task(row: Row, cancelled: Cancellation | None) -> Row:
    """The changes to an array's row that make it the row of a task without a record.

    ``cancelled`` None: the task is pending. A cancellation that is not known was at the array's end at the latest.
    """
    own = dict.fromkeys(_OF_THE_WHOLE) | {"state": "pending", "cancelled_by": None}
    if cancelled is None:
        return own
    at = row["ended_at"] if cancelled.at is None else cancelled.at
    return own | {"state": "cancelled", "ended_at": at, "cancelled_by": cancelled.by}


def folded(row: Row, tasks: IndexSet, cancelled: Cancellation | None) -> Row:
    """One row for these tasks of the array of this row. One task is in ``array_task``, several are in ``array``."""
    is_one = count(tasks) == 1
    name = {"array": None if is_one else written(tasks), "array_task": next(each(tasks)) if is_one else None}
    end = {"cause": None if cancelled is None else cancelled.cause, "message": None}
    return row | as_task(row, cancelled) | name | end | {"array_job": row["id"], "has_tasks": False}


class Chosen(NamedTuple, Generic[Filter]):
    """Which jobs: a filter, and further conditions with the values of their parameters."""

    filter: Filter
    terms: Sequence[str]
    values: Sequence[object]


def with_cancelled_tasks(wanted: Filter) -> Chosen[Filter]:
    """The filter; if it wants cancelled jobs, also arrays in any state of which tasks were cancelled without records.

    See :func:`without_records` for the rows of these tasks.
    """
    if wanted.states is None or "cancelled" not in wanted.states:
        return Chosen(wanted, (), ())
    values = (msgspec.json.encode(wanted.states).decode(),)
    return Chosen(msgspec.structs.replace(wanted, states=None), (_STATES,), values)


def sets_of(connection: Reader, ids: Sequence[int]) -> Mapping[int, Row]:
    """Of those of these jobs that are arrays, by id: the indices that are ``pending`` and ``cancelled`` in them."""
    return {row["job_id"]: row for row in fetch(connection, _ARRAYS, [json.dumps(ids)])}


def mark_arrays(connection: Reader, rows: Sequence[Row]) -> None:
    """Set ``has_tasks`` in rows of records: of an array, whether some of its tasks have records of their own."""
    ids = [row["id"] for row in rows if row["array_job"] is None]
    found = {row["job_id"] for row in fetch(connection, _WITH_TASKS, [json.dumps(ids)])} if ids else frozenset[int]()
    for row in rows:
        row["has_tasks"] = row["id"] in found


def without_records(connection: Reader, row: Row, sets: Row, named: IndexSet | None) -> list[Row]:
    """The rows of tasks of this array: those that are pending, if they are named, and those that were cancelled."""
    rows = []
    pending = EMPTY if named is None else common(read(sets["pending"]), named)
    if pending:
        rows.append(folded(row, pending, None))
    gone = read(sets["cancelled"])
    gone = gone if named is None else common(gone, named)
    if gone:
        one = gone[0][0] if named is not None else None
        rows.append(folded(row, gone, cancellation(connection, row["id"], one)))
    return rows


def named_tasks(wanted: JobFilter) -> Mapping[int, IndexSet]:
    """The named tasks of each array that is not named as a whole."""
    given = apart(([] if wanted.id is None else [wanted.id]) + list(wanted.ids or ()))
    names = [parse_name(name) for name in given.names]
    whole = {name.job for name in names if not name.indices}
    found: dict[int, list[IndexSet]] = {}
    for name in names:
        if name.indices and name.job not in whole and not any(name.job in ids for ids in given.ranges):
            found.setdefault(name.job, []).append(name.indices)
    return {job: union(*sets) for job, sets in found.items()}

"""Tasks without records of their own, as rows like those of records; and who cancelled a job or a task.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.model.index_set import IndexSet, contains, count, each, read, written
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS, value_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    return row | as_task(row, cancelled) | name | end | {"array_job": row["id"]}

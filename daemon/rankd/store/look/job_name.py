"""The records that names mean: jobs, arrays and tasks, for commands that look.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.array import JobName, by_kind, parse_name
from rankd.core.model.id_range import bounds
from rankd.core.model.index_set import IndexSet, common, contains, count, each, read, union
from rankd.store.engine.reading import Reader, fetch
from rankd.store.engine.word import IN_NUMBERS, JOIN_IN_ORDER, VALUES, listed, number_at

if TYPE_CHECKING:
    from collections.abc import Iterable

_RANGES = f"{listed(VALUES)} r {JOIN_IN_ORDER} jobs j"
_BOUNDS = f"{number_at('r.value', '$[0]')} AND {number_at('r.value', '$[1]')}"
IN_RANGES = f"""SELECT j.id FROM {_RANGES} ON j.id BETWEEN {_BOUNDS} WHERE j.array_job IS NULL
    UNION ALL SELECT j.id FROM {_RANGES} ON j.array_job BETWEEN {_BOUNDS}"""
"""The records of the jobs and arrays in ranges, with those of their tasks. Their bounds are a parameter, twice."""

MOST_TASKS = 10_000
"""The most tasks that a request may name one by one."""


class Found(NamedTuple):
    """A record. ``task``: the named task that is still part of it, if it is that of an array."""

    job: int
    task: int | None = None
    is_cancelled: bool = False


def record_of(connection: Reader, name: int | str) -> Found:
    """The record of a job or of one task; for a task without one, that of its array.

    Raises:
        Refused: ``unknown_job``, ``bad_job_id``; ``bad_array``: it names several tasks.
    """
    parsed = parse_name(name)
    if not parsed.indices:
        return Found(parsed.job)
    if count(parsed.indices) > 1:
        raise Refused("bad_array", f"'{str(name)[:40]}' is more than one task; name one", "id")
    [task] = each(parsed.indices)
    sql = "SELECT id FROM jobs WHERE array_job = ? AND array_task = ?"
    if rows := fetch(connection, sql, [parsed.job, task]):
        return Found(rows[0]["id"])
    pending, cancelled = _indices(connection, parsed.job)
    if contains(read(pending), task):
        return Found(parsed.job, task)
    if contains(read(cancelled), task):
        return Found(parsed.job, task, is_cancelled=True)
    raise Refused("unknown_job", f"there is no job {parsed}", "id", status=404)


def of_ranges(ranges: Iterable[range]) -> str:
    """Ranges of ids as a parameter."""
    return msgspec.json.encode(bounds(ranges)).decode()


def records_of(connection: Reader, names: Iterable[int | str]) -> list[int]:
    """The records of all these names. An array has its own and those of its tasks.

    A task without a record has that of its array; one that does not exist has none.

    Raises:
        Refused: ``bad_job_id``, ``bad_array``, ``array_too_large``, ``too_many_tasks``.
    """
    numbers, texts = by_kind(names)
    parsed = [parse_name(name) for name in texts]
    if sum(count(name.indices) for name in parsed) > MOST_TASKS:
        message = f"at most {MOST_TASKS} tasks can be named at once; name the whole array, or fewer tasks"
        raise Refused("too_many_tasks", message, "ids")
    found = numbers + [name.job for name in parsed if not name.indices]
    sql = f"SELECT id FROM jobs WHERE array_job {IN_NUMBERS}"
    found += [row["id"] for row in fetch(connection, sql, [msgspec.json.encode(found).decode()])]
    named: dict[int, list[IndexSet]] = {}
    for name in parsed:
        if name.indices:
            named.setdefault(name.job, []).append(name.indices)
    for array, indices in named.items():  # each array is read once: its indices may be a megabyte of text
        found += _of_tasks(connection, JobName(array, union(*indices)))
    return list(dict.fromkeys(found))


def _of_tasks(connection: Reader, name: JobName) -> list[int]:
    sql = f"SELECT id FROM jobs WHERE array_job = ? AND array_task {IN_NUMBERS}"
    listed = msgspec.json.encode(list(each(name.indices))).decode()
    found = [int(row["id"]) for row in fetch(connection, sql, [name.job, listed])]
    if any(common(read(text), name.indices) for text in _indices(connection, name.job)):
        found.append(name.job)
    return found


def _indices(connection: Reader, array: int) -> tuple[str | None, str | None]:
    """The indices that are pending in an array's record, and those that were cancelled in it."""
    sql = 'SELECT j."array" AS pending, a.cancelled FROM arrays a JOIN jobs j ON j.id = a.job_id WHERE a.job_id = ?'
    rows = fetch(connection, sql, [array])
    return (rows[0]["pending"], rows[0]["cancelled"]) if rows else (None, None)

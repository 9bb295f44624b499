"""Which jobs a filter selects: its conditions in SQL, the ids of the selected jobs, and their number.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from rankd.core.model.id_range import apart, bounds, written_range
from rankd.core.model.quantity import LARGEST
from rankd.core.model.queue_path import full_path
from rankd.store.engine.reading import Reader, fetch
from rankd.store.engine.word import IN_NUMBERS, IN_TEXTS, TEXTS, listed
from rankd.store.look.job_name import IN_RANGES, records_of
from rankd.wire.job_selection import JobFilter
from rankd.wire.page import JobList

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Filter = TypeVar("Filter", bound=JobFilter)

ALL = 2**31 - 1
"""A limit that no number of jobs reaches."""

ACTIVE = ("pending", "allocated", "running")
_ACTIVE_SQL = "state IN ('pending', 'allocated', 'running')"
"""The same text as in the partial index on jobs. With any other text, SQLite does not use the index."""


def as_json(values: Iterable[object]) -> str:
    """Many values as one parameter, so that the engine's limit of parameters does not apply."""
    return msgspec.json.encode(list(values)).decode()


def by_record(connection: Reader, wanted: Filter) -> Filter:
    """The filter with the ids of records in place of the names of jobs, arrays and tasks. Ranges of ids stay.

    One that ends behind the newest record gets the largest id as its end.
    """
    if wanted.id is None and wanted.ids is None:
        return wanted
    named = apart([*([] if wanted.id is None else [wanted.id]), *(wanted.ids or ())])
    ids: list[int | str] = [*records_of(connection, named.names)]
    if named.ranges:
        newest = fetch(connection, "SELECT max(id) AS id FROM jobs")[0]["id"] or 0
        ids += [written_range(range(one.start, LARGEST + 1) if newest in one else one) for one in named.ranges]
    return msgspec.structs.replace(wanted, id=None, ids=ids)


def conditions(wanted: JobFilter) -> tuple[str, list[object]]:
    """The WHERE clause and its parameters. All conditions must hold; the entries of a list are alternatives.

    ``ids`` are records and ranges, as from :func:`by_record`.
    """
    lists: list[tuple[str, Sequence[object] | None]] = [
        ('"user"', wanted.users),
        ("account", wanted.accounts),
        ("partition", wanted.partitions),
        ("state", wanted.states),
        ("name", wanted.names),
        ("qos", wanted.qos),
    ]
    given = [(column, values) for column, values in lists if values is not None]
    terms = [f"{column} {IN_TEXTS}" for column, _ in given]
    parameters: list[object] = [as_json(values) for _, values in given]
    if wanted.id is not None or wanted.ids is not None:
        term, values = _in_ids([*([] if wanted.id is None else [wanted.id]), *(wanted.ids or ())])
        terms.append(term)
        parameters += values
    if wanted.queues is not None:
        terms.append(f"lower(queue) IN (SELECT lower(value) FROM {listed(TEXTS)})")
        parameters.append(as_json(map(full_path, wanted.queues)))
    if wanted.after is not None:
        terms.append("id > ?")
        parameters.append(wanted.after)
    if isinstance(wanted, JobList) and wanted.before is not None:
        terms.append("id < ?")
        parameters.append(wanted.before)
    if isinstance(wanted, JobList) and not wanted.tasks:
        terms.append("array_job IS NULL")
    is_of_few = wanted.users is not None and wanted.names is None  # the index of users is better than that of states
    if wanted.states is not None and set(wanted.states) <= set(ACTIVE) and not is_of_few:
        terms.append(_ACTIVE_SQL)
    return (" WHERE " + " AND ".join(terms) if terms else ""), parameters


def _in_ids(ids: Sequence[int | str]) -> tuple[str, list[object]]:
    """Whether a record is one of these, or of a job or an array in one of these ranges."""
    named = apart(ids)
    if not named.ranges:
        return f"id {IN_NUMBERS}", [as_json(ids)]
    *closed, last = bounds(named.ranges)
    terms, values = [f"id {IN_NUMBERS}"], list[object]([as_json(named.names)])
    if last[1] < LARGEST:
        closed.append(last)
    else:  # everything from there on, but for tasks of arrays before: no list of all of these ids
        terms.append("(id >= ? AND id NOT IN (SELECT t.id FROM jobs t WHERE t.array_job < ? AND t.id >= ?))")
        values += [last[0]] * 3
    if closed:
        terms.append(f"id IN ({IN_RANGES})")
        values += [as_json(closed)] * 2
    return f"({' OR '.join(terms)})", values


def _chosen(wanted: JobFilter) -> str:
    """A subquery of jobs with only those columns of other tables that the filter needs."""
    columns = ['j.id, j."user", j.state, j.name, j.submitted_at, j.ended_at, j.array_job']
    joins = [""]
    if wanted.accounts is not None:
        columns.append("a.account")
        joins.append("JOIN associations a ON a.id = j.association_id")
    if wanted.queues is not None or wanted.partitions is not None:
        columns.append("q.path AS queue, q.partition")
        joins.append("JOIN queues q ON q.id = j.queue_id")
    if wanted.qos is not None:
        columns.append("s.name AS qos")
        joins.append("JOIN qos s ON s.id = j.qos_id")
    return f"(SELECT {', '.join(columns)} FROM jobs j{' '.join(joins)}) chosen"


def where_of(wanted: JobFilter, terms: Sequence[str], values: Sequence[object]) -> tuple[str, list[object]]:
    """The WHERE clause of the filter and the further terms, and its parameters."""
    where, parameters = conditions(wanted)
    every = [*([where.removeprefix(" WHERE ")] if where else []), *terms]
    return (f" WHERE {' AND '.join(every)}" if every else ""), [*parameters, *values]


def job_ids(
    connection: Reader, wanted: JobFilter, terms: Sequence[str] = (), values: Sequence[object] = ()
) -> list[int]:
    """Ids of at most ``limit`` jobs: the newest, newest first; with ``after`` the next ones, oldest first.

    ``terms`` are further conditions on the columns of :func:`_chosen`, with ``values`` for their parameters.
    """
    where, parameters = where_of(by_record(connection, wanted), terms, values)
    order = "id" if wanted.after is not None else "id DESC"
    sql = f"SELECT id FROM {_chosen(wanted)}{where} ORDER BY {order} LIMIT ?"
    return [row["id"] for row in fetch(connection, sql, [*parameters, wanted.limit])]


def count_jobs(connection: Reader, wanted: JobFilter, terms: Sequence[str] = (), values: Sequence[object] = ()) -> int:
    """The number of jobs that match the filter. The filter's limit and the start of its page are ignored."""
    whole = msgspec.structs.replace(wanted, after=None, **({"before": None} if isinstance(wanted, JobList) else {}))
    where, parameters = where_of(by_record(connection, whole), terms, values)
    return int(fetch(connection, f"SELECT count(*) AS n FROM {_chosen(wanted)}{where}", parameters)[0]["n"])

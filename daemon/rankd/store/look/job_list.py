"""Jobs in any state, with their ranks, for ``rankd queue`` and ``job.list``.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS
from rankd.store.look.job_filter import as_json, by_record, count_jobs, job_ids, where_of
from rankd.store.look.priority_list import has_ranking
from rankd.store.look.rank_look import whole_ranking
from rankd.store.look.task_row import mark_arrays, named_tasks, sets_of, with_cancelled_tasks, without_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rankd.wire.message import JobFilter

MANY = 10_000
"""Up to 10,000 jobs are first selected by their ids, so that the columns of no other jobs are read."""
FEW = 500
"""For up to 500 jobs, single look-ups of ranks are faster than reading the whole ranking."""

_UNRANKED = dict.fromkeys(("rank", "priority", "reason", "reason_fact", "expected_start_at", "reserved_nodes"))
"""What a task that was cancelled has nothing of."""

_JOB_LIST = """
    id, "user", account, queue, partition, qos, application, name, state, reason, reason_fact,
    expected_start_at, reserved_nodes, held,
    class_value, priority_class, urgency, nodes, cores, resources, constraints, exclusive, time_limit_s,
    begin_at, depends_on, requeues, submitted_at, eligible_at, started_at, ended_at, exit_status, signal,
    nodelist, comment, "array", array_limit, array_job, array_task, retry_of, allocated"""


def jobs(connection: Reader, wanted: JobFilter) -> list[Row]:
    """Jobs in any state, by id. If there are more than the limit, returns the newest (with ``after``: the next).

    ``rank`` and ``priority`` are None for a job that is not ranked.
    """
    if wanted.limit <= MANY:
        return jobs_of(connection, listed_ids(connection, wanted), wanted)
    chosen = with_cancelled_tasks(wanted)
    where, parameters = where_of(by_record(connection, chosen.filter), chosen.terms, chosen.values)
    order = "id" if wanted.after is not None else "id DESC"
    sql = f"SELECT {_JOB_LIST} FROM job{where} ORDER BY {order} LIMIT ?"
    rows = sorted(fetch(connection, sql, [*parameters, wanted.limit]), key=_id)
    return _and_cancelled(connection, _with_ranks(connection, rows), wanted)


def listed_ids(connection: Reader, wanted: JobFilter) -> list[int]:
    """The ids of these jobs and of arrays with such tasks, in the order of :func:`.job_filter.job_ids`."""
    return job_ids(connection, *with_cancelled_tasks(wanted))


def count_listed(connection: Reader, wanted: JobFilter) -> int:
    """The number of these jobs; tasks without records count as one job with their array."""
    return count_jobs(connection, *with_cancelled_tasks(wanted))


def jobs_of(connection: Reader, ids: Sequence[int], wanted: JobFilter) -> list[Row]:
    """These jobs, by id.

    If cancelled ones are wanted, those tasks of an array that were cancelled without records have a row behind it.
    """
    sql = f"SELECT {_JOB_LIST} FROM job WHERE id {IN_NUMBERS} ORDER BY id"
    return _and_cancelled(connection, _with_ranks(connection, fetch(connection, sql, [as_json(ids)])), wanted)


def _and_cancelled(connection: Reader, rows: list[Row], wanted: JobFilter) -> list[Row]:
    if wanted.states is None or "cancelled" not in wanted.states:
        return rows
    arrays, named = sets_of(connection, [row["id"] for row in rows]), named_tasks(wanted)
    found: list[Row] = []
    for row in rows:
        if row["id"] not in named:
            found.append(row)
        if sets := arrays.get(row["id"]):
            tasks = without_records(connection, row | _UNRANKED, sets, named.get(row["id"]))
            found += [{name: task[name] for name in row} for task in tasks]
    return [row for row in found if row["state"] in wanted.states]


def _id(row: Row) -> int:
    return int(row["id"])


def _with_ranks(connection: Reader, rows: list[Row]) -> list[Row]:
    ranks = _ranks(connection, [row["id"] for row in rows if row["state"] == "pending"])
    for row in rows:
        row["rank"], row["priority"] = ranks.get(row["id"], (None, None))
    mark_arrays(connection, rows)
    return rows


def _ranks(connection: Reader, ids: list[int]) -> Mapping[int, tuple[int, int]]:
    if not ids or not has_ranking(connection):
        return {}
    if len(ids) > FEW:
        return whole_ranking(connection)
    sql = f"SELECT id, rank, priority FROM job_priority WHERE id {IN_NUMBERS}"
    rows = fetch(connection, sql, [as_json(ids)])
    return {row["id"]: (row["rank"], row["priority"]) for row in rows if row["rank"] is not None}

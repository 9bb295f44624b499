"""Resource usage of jobs: one row per job with the times, the nodes and the measured usage of its last run.

Tasks without records of their own have one row together if they were cancelled, or if they were named.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from rankd.store.engine.reading import fetch
from rankd.store.engine.word import IN_NUMBERS, number_at, text_at
from rankd.store.look.job_filter import count_jobs, job_ids
from rankd.store.look.task_row import (
    Chosen,
    mark_arrays,
    named_tasks,
    sets_of,
    who_cancelled,
    with_cancelled_tasks,
    without_records,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.store.engine.reading import Reader, Row
    from rankd.wire.message import AccountingFilter

_COLUMNS = """
    id, name, "user", account, queue, partition, qos, state, nodes, cores, resources, time_limit_s, requeues,
    submitted_at, eligible_at, started_at, ended_at, exit_status, signal, nodelist, max_rss_bytes, cpu_s,
    measured, message, reason, comment, "array", array_limit, array_job, array_task,
    allocated, waited_dependency_s, waited_held_s, waited_quota_s, waited_resources_s, waited_reserved_s,
    waited_starting_s"""
_GPU_USES = f"""
SELECT job, avg(mean_utilisation) AS gpu_utilisation, max(peak_memory) AS gpu_memory
FROM job_device WHERE job {IN_NUMBERS} GROUP BY job, allocation ORDER BY allocation"""
_NOT_USED = {"gpu_utilisation": None, "gpu_memory": None}
_MODELS = f"""
    SELECT j.id AS job, d.model, count(*) AS number
    FROM jobs j JOIN allocation_devices d ON d.allocation_id = j.allocation_id
    WHERE j.id {IN_NUMBERS} GROUP BY j.id, d.model ORDER BY j.id, d.model"""

_EARLIER = f"""
    SELECT job, sum(run_s * cores) / 1000.0 AS earlier_core_s, sum(run_s * gpus) AS earlier_gpu_s,
        sum(run_s * memory) AS earlier_memory_byte_s FROM (
        SELECT j.id AS job, l.ended_at - l.started_at AS run_s,
            (SELECT sum(coalesce({number_at("p.resources", "$.vcore")}, j.vcore)) FROM allocation_nodes p
                WHERE p.allocation_id = l.id) AS cores,
            (SELECT sum(coalesce({number_at("p.resources", "$.gpu")}, {number_at("l.resources", "$.gpu")}, 0))
                FROM allocation_nodes p WHERE p.allocation_id = l.id) AS gpus,
            (SELECT sum(coalesce({number_at("p.resources", "$.memory")}, {number_at("l.resources", "$.memory")}, 0))
                FROM allocation_nodes p WHERE p.allocation_id = l.id) AS memory
        FROM jobs j JOIN allocations l ON l.job_id = j.id
        WHERE j.id {IN_NUMBERS} AND j.requeues > 0 AND l.started_at IS NOT NULL AND l.ended_at IS NOT NULL
            AND NOT (j.started_at IS NOT NULL AND l.id = j.allocation_id)) runs
    GROUP BY job"""
"""What the runs before the last one used. A job that waits again has no present run: then all its runs are earlier."""
_NO_EARLIER = {"earlier_core_s": 0.0, "earlier_gpu_s": 0.0, "earlier_memory_byte_s": 0.0}

_DETAILS = f"""
    SELECT j.id, {text_at("coalesce(t.request, j.request)", "$.cwd")} AS cwd,
        CASE WHEN j.ended_at IS NOT NULL THEN coalesce(e.cause, (
            SELECT p.cause FROM allocation_nodes p WHERE p.allocation_id = j.allocation_id AND p.cause <> 'cancel'
            ORDER BY p.ended_at, p.node LIMIT 1)) END AS cause
    FROM jobs j LEFT JOIN array_requests t ON t.id = j.request_id LEFT JOIN job_events e ON e.id = j.revision
    WHERE j.id {IN_NUMBERS}"""
"""The event of the end is the last one of an ended job. It may have been deleted; then the parts know the cause."""


def accounting(connection: Reader, wanted: AccountingFilter) -> list[Row]:
    """Jobs, by id, that were in the system at some time between ``since`` and ``until`` (UTC seconds).

    If there are more than the limit, returns the newest.
    """
    return accounting_of(connection, accounting_ids(connection, wanted, wanted.limit), wanted)


def accounting_ids(connection: Reader, wanted: AccountingFilter, limit: int) -> list[int]:
    """The ids of at most this many of these jobs, in the order of :func:`rankd.store.look.job_filter.job_ids`."""
    found = _conditions(wanted)
    return job_ids(connection, msgspec.structs.replace(found.filter, limit=limit), found.terms, found.values)


def count_accounted(connection: Reader, wanted: AccountingFilter) -> int:
    """The number of these jobs; tasks without records count as one job with their array."""
    return count_jobs(connection, *_conditions(wanted))


def _conditions(wanted: AccountingFilter) -> Chosen[AccountingFilter]:
    terms, values = list[str](), list[object]()
    if wanted.since is not None:
        terms.append("(ended_at IS NULL OR ended_at >= ?)")
        values.append(wanted.since)
    if wanted.until is not None:
        terms.append("submitted_at <= ?")
        values.append(wanted.until)
    found = with_cancelled_tasks(wanted)
    return Chosen(found.filter, [*terms, *found.terms], [*values, *found.values])


def accounting_of(connection: Reader, ids: Sequence[int], wanted: AccountingFilter) -> list[Row]:
    """The usage of these jobs, by id. Behind an array come its tasks that were cancelled without records.

    ``gpus``: how many devices of each model the last run had. ``cause``: why a job ended, if rankd or the kernel ended
    it, such as ``out_of_memory``.

    If only tasks of an array are named, those of them that have no records are in the place of the array.
    """
    sql = f"SELECT {_COLUMNS} FROM job WHERE id {IN_NUMBERS} ORDER BY id"
    rows = fetch(connection, sql, [json.dumps(ids)])
    mark_arrays(connection, rows)
    uses = {row.pop("job"): row for row in fetch(connection, _GPU_USES, [json.dumps(ids)])}  # those of the last run
    earlier = {row.pop("job"): row for row in fetch(connection, _EARLIER, [json.dumps(ids)])}
    details = {row.pop("id"): row for row in fetch(connection, _DETAILS, [json.dumps(ids)])}
    by = who_cancelled(connection, [row["id"] for row in rows if row["state"] == "cancelled"])
    arrays = sets_of(connection, ids)
    models = _models_of(connection, ids)
    named = named_tasks(wanted)
    found: list[Row] = []
    for row in rows:
        row.update(details[row["id"]])
        row["gpus"] = models.get(row["id"], {})
        row["cancelled_by"] = by.get(row["id"])
        row.update(uses.get(row["id"], _NOT_USED))
        row.update(earlier.get(row["id"], _NO_EARLIER))
        sets = arrays.get(row["id"])
        if row["id"] not in named:
            found.append(row)
        if sets is not None:
            found += without_records(connection, row, sets, named.get(row["id"]))
    return [row for row in found if _is_wanted(row, wanted)]


def _models_of(connection: Reader, ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """The number of devices of each model that the last runs of these jobs had."""
    given: dict[int, dict[str, int]] = {}
    for row in fetch(connection, _MODELS, [json.dumps(ids)]):
        given.setdefault(row["job"], {})[row["model"]] = row["number"]
    return given


def _is_wanted(row: Row, wanted: AccountingFilter) -> bool:
    """Whether the state and the end of a row are among the wanted ones: an array may be there for its tasks' sake."""
    in_time = wanted.since is None or row["ended_at"] is None or row["ended_at"] >= wanted.since
    return in_time and (wanted.states is None or row["state"] in wanted.states)

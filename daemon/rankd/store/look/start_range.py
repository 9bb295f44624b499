"""When a job will start, as the last forecast has it; and how good earlier estimates were.

SQL is text: looking modules import no SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rankd.core.errors import Refused
from rankd.core.model.job import State
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS
from rankd.store.look.job_filter import as_json
from rankd.store.look.job_name import record_of
from rankd.store.look.priority_list import priorities_of
from rankd.store.look.task_row import as_task, cancellation

LAST = 500
"""Estimates whose record is shown."""
NEAR_S = 600.0
"""An estimate is near if the job started within this many seconds of its middle."""

_JOB = """SELECT id, "user", state, reason, reason_fact, started_at, ended_at, array_job, array_task, "array", message,
    exit_status FROM job WHERE id = ?"""
_RANGE = "SELECT early, late, reason AS unknown, fact AS unknown_fact FROM start_ranges WHERE job_id = ?"
_FORECAST = "SELECT made_at, generation, jobs, beyond, took_s, cpu_s FROM forecasts"
_JOBS = "SELECT jobs FROM generation WHERE number = ?"
_SCORED = """SELECT early, late, started_at FROM start_estimates
    WHERE started_at IS NOT NULL ORDER BY started_at DESC LIMIT ?"""
_NONE = {"early": None, "late": None, "unknown": None, "unknown_fact": ""}


def start_range(connection: Reader, name: int | str) -> Row:
    """The job's state, rank and reason for waiting, and its range with the forecast's ``made_at``.

    ``unknown``: why the early or the late end is not known. A task without a record has its array's range.

    Raises:
        Refused: ``unknown_job``.
    """
    found = record_of(connection, name)
    rows = fetch(connection, _JOB, [found.job])
    if not rows:
        raise Refused("unknown_job", f"there is no job {found.job}", "id", status=404)
    job = rows[0]
    if found.task is not None:
        cancelled = cancellation(connection, found.job, found.task) if found.is_cancelled else None
        job = job | {"array_job": found.job, "array_task": found.task} | as_task(job, cancelled)
    shown = {key: job.get(key) for key in ("id", "user", "state", "started_at", "array_job", "array_task")}
    answer = shown | {"limited_by": job.get("reason"), "limited_by_fact": job.get("reason_fact")} | _NONE
    answer |= {"rank": None, "of": None, "made_at": None}
    if job["state"] != State.PENDING:
        return answer
    if head := fetch(connection, _FORECAST):
        answer["made_at"] = head[0]["made_at"]
        answer |= next(iter(fetch(connection, _RANGE, [found.job])), {})
    ranked = priorities_of(connection, [found.job])
    if ranked and ranked[0]["rank"] is not None:
        answer["rank"] = ranked[0]["rank"]
        answer["of"] = fetch(connection, _JOBS, [ranked[0]["generation"]])[0]["jobs"]
    return answer


def ranges_of(connection: Reader, jobs: Sequence[int]) -> dict[int, Row]:
    """``early`` and ``late`` of these jobs, as far as the last forecast has them."""
    sql = f"SELECT job_id, early, late FROM start_ranges WHERE job_id {IN_NUMBERS} AND early IS NOT NULL"
    rows = fetch(connection, sql, [as_json(jobs)])
    return {row["job_id"]: {"early": row["early"], "late": row["late"]} for row in rows}


def forecast_record(connection: Reader) -> Row:
    """The last forecast (None: there was none), and how good the last :data:`LAST` estimates were that were shown.

    ``within`` and ``near``: parts of those ``scored``, None without any. An estimate without a late end counts with its
    early end as its middle, and every later start is within it. ``error_s``: the median distance from the middle.
    """
    head = fetch(connection, _FORECAST)
    scored = [(row["early"], row["late"], row["started_at"]) for row in fetch(connection, _SCORED, [LAST])]
    errors = [abs(at - (early if late is None else (early + late) / 2)) for early, late, at in scored]
    within = [early <= at and (late is None or at <= late) for early, late, at in scored]
    return {
        "forecast": head[0] if head else None,
        "scored": len(scored),
        "within": sum(within) / len(scored) if scored else None,
        "near": sum(error <= NEAR_S for error in errors) / len(scored) if scored else None,
        "error_s": median(errors) if errors else None,
    }

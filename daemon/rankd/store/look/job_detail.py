"""One job: all of its data, and its events.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import value_at
from rankd.store.look.failed_notification import failed_notifications
from rankd.store.look.job_name import record_of
from rankd.store.look.job_script import script_bytes
from rankd.store.look.priority_list import breakdown
from rankd.store.look.step_list import steps_of
from rankd.store.look.task_row import as_task, cancellation, who_cancelled

_ENVIRONMENT = f"""SELECT {value_at("coalesce(t.request, j.request)", "$.env")} AS env
    FROM jobs j LEFT JOIN array_requests t ON t.id = j.request_id WHERE j.id = ?"""
_DEVICES = "SELECT devices FROM allocations WHERE id = ? AND devices IS NOT NULL"
_NOTIFY = """SELECT n.notify FROM jobs j JOIN job_notifications n ON n.job_id = coalesce(j.array_job, j.id)
    WHERE j.id = ?"""


def job_detail(connection: Reader, name: int | str, reads_environment_of: str | None = "") -> Row:
    """All data of one job: its request, the resolved values, and how it ran. A pending job also has its breakdown.

    A task without a record has the data of its array, but the state and the times of its own.
    The environment (``env``) and the targets of notifications (``notify``) are included if the job belongs to the user
    ``reads_environment_of``. None means any user.
    ``failed_notifications``, for the same: those that are tried again, and those that were given up.
    ``devices``: the ids of those of its present or last allocation, by node, if it has any.
    ``steps``, ``step_count``: of that allocation, if it has any (:mod:`.step_list`).
    Of a script, only its size in bytes is included (``script_bytes``).

    Raises:
        Refused: ``unknown_job``.
    """
    found = record_of(connection, name)
    job_id = found.job
    rows = fetch(connection, "SELECT * FROM job WHERE id = ?", [job_id])
    if not rows:
        raise Refused("unknown_job", f"there is no job {job_id}", "id", status=404)
    record = rows[0]
    submitted = msgspec.json.decode(record.pop("request"), type=Row)
    submitted.pop("script", None)
    submitted.pop("notify", None)
    submitted["script_bytes"] = script_bytes(connection, job_id)
    if reads_environment_of in (None, record["user"]):
        stored = fetch(connection, _ENVIRONMENT, [job_id])
        submitted["env"] = msgspec.json.decode(stored[0]["env"] or "{}")
        wanted = fetch(connection, _NOTIFY, [job_id])
        submitted["notify"] = msgspec.json.decode(wanted[0]["notify"]) if wanted else None
        if wanted:
            submitted["failed_notifications"] = failed_notifications(connection, job_id, record["user"])
    # A resolved value replaces the requested one. A value that is not resolved yet (stdout) stays as requested.
    merged = submitted | {name: value for name, value in record.items() if value is not None or name not in submitted}
    merged["array"] = record["array"]
    merged["cancelled_by"] = who_cancelled(connection, [job_id]).get(job_id)
    if found.task is not None:
        cancelled = cancellation(connection, job_id, found.task) if found.is_cancelled else None
        merged |= {"array_task": found.task} | as_task(record, cancelled)
    held = fetch(connection, _DEVICES, [record["allocation_id"]])
    if held:
        merged["devices"] = msgspec.json.decode(held[0]["devices"])
    merged |= steps_of(connection, record["allocation_id"])
    if merged["state"] == "pending":
        merged["priority_breakdown"] = breakdown(connection, job_id)
    return merged


def owner_of(connection: Reader, name: int | str) -> str | None:
    """The user of a job; None if there is no such job."""
    job_id = parse_name(name).job
    rows = fetch(connection, 'SELECT "user" FROM jobs WHERE id = ?', [job_id])
    return None if not rows else str(rows[0]["user"])


def job_events(connection: Reader, name: int | str) -> list[Row]:
    """The events of a job, oldest first."""
    job_id = record_of(connection, name).job
    columns = "id, job_id, event, state, at, actor, cause, detail"
    return fetch(connection, f"SELECT {columns} FROM job_event WHERE job_id = ? ORDER BY id", [job_id])

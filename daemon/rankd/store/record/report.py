"""Reports of agents. Reads the reported allocations and writes what ``core/change/report.py`` decides.

Many reports are read and written together: the number of statements depends on the transaction, not on the reports. The
statements are text, because a cluster that starts and ends thousands of jobs a second reports here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from rankd.core.change.job_change import Value
from rankd.core.change.report import Allocated, Part, PartChange, ReportEffects, decide_reports
from rankd.core.model.outcome import NodeEnd
from rankd.core.model.report import Report
from rankd.store.record.job import apply_changes, read_states
from rankd.store.record.job_story import tells_story

_PARTS = """
SELECT l.id, l.job_id, l.allocated_at, n.node, n.started_at IS NOT NULL, n.ended_at, n.exit_status, n.signal, n.cause
FROM json_each(?) w CROSS JOIN allocations l ON l.id = w.value JOIN allocation_nodes n ON n.allocation_id = l.id"""

_PART_STARTED = (
    "UPDATE allocation_nodes SET started_at = ?, stdout = ?, stderr = ?"
    " WHERE allocation_id = ? AND node = ? AND started_at IS NULL"
)
_PART_ENDED = (
    "UPDATE allocation_nodes SET ended_at = ?, exit_status = ?, signal = ?, cause = ?, message = ?,"
    " stdout = coalesce(?, stdout), stderr = coalesce(?, stderr), max_rss_bytes = ?, cpu_s = ?,"
    " measured = ?"
    " WHERE allocation_id = ? AND node = ? AND ended_at IS NULL"
)
_STARTED = "UPDATE allocations SET started_at = ? WHERE id = ?"
_ENDED = "UPDATE allocations SET ended_at = ? WHERE id = ?"
_GANG = "UPDATE allocations SET cancel = 'gang' WHERE id = ? AND cancel IS NULL"


def take_reports(connection: Connection, reports: Sequence[tuple[str, Report]], max_requeues: int, now: float) -> None:
    """Apply reports of (node, report) in the order of their arrival.

    Raises:
        InvalidTransition: a job's state does not allow an event. The caller has to roll the transaction back.
    """
    allocations = _read_allocations(connection, dict.fromkeys(report.allocation for _, report in reports))
    states = read_states(connection, sorted({allocation.job for allocation in allocations.values()}))
    with tells_story(connection):
        effects = decide_reports(reports, allocations, states, max_requeues, now)
    _write(connection, effects)
    apply_changes(connection, effects.changes, now)


def _read_allocations(connection: Connection, ids: Iterable[int]) -> dict[int, Allocated]:
    found: dict[int, Allocated] = {}
    for id_, job, allocated_at, node, started, ended_at, status, signal, cause in connection.exec_driver_sql(
        _PARTS, (json.dumps(list(ids)),)
    ):
        if id_ not in found:
            found[id_] = Allocated(job=job, allocated_at=allocated_at, parts={})
        end = NodeEnd(exit_status=status, signal=signal, cause=cause)
        found[id_].parts[node] = Part(started=bool(started), ended_at=ended_at, end=end)
    return found


def _write(connection: Connection, effects: ReportEffects) -> None:
    rows_of: dict[str, Sequence[tuple[Value, ...]]] = {
        _PART_STARTED: [_start_row(change) for change in effects.part_starts],
        _PART_ENDED: [_end_row(change) for change in effects.part_ends],
        _STARTED: effects.starts,
        _ENDED: effects.ends,
        _GANG: [(allocation,) for allocation in effects.gang_ends],
    }
    for statement, rows in rows_of.items():
        if rows:
            connection.exec_driver_sql(statement, [tuple(row) for row in rows])


def _start_row(change: PartChange) -> tuple[Value, ...]:
    report = change.report
    return (change.at, report.stdout, report.stderr, report.allocation, change.node)


def _end_row(change: PartChange) -> tuple[Value, ...]:
    report = change.report
    return (
        change.at, report.exit_status, report.signal, report.cause, report.message, report.stdout, report.stderr,
        report.max_rss_bytes, report.cpu_s, report.measured, report.allocation, change.node,
    )  # fmt: skip

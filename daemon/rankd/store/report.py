"""Agents' reports: starts and ends, each taken once however often it is delivered."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.model.job import Event, State
from rankd.core.model.outcome import JobEnd, NodeEnd, decide_end
from rankd.store.job import Change, JobState, apply_changes, read_states
from rankd.wire.message import Report


def take_reports(connection: Connection, reports: Sequence[tuple[str, Report]], max_requeues: int, now: float) -> None:
    """Apply reports of (node, report) in the order in which they came."""
    jobs = _jobs_of(connection, {report.allocation for _, report in reports})
    for node, given in reports:
        # an agent that was told to end what it never started does not know the job
        report = msgspec.structs.replace(given, job=jobs.get(given.allocation, given.job))
        if report.kind == "started":
            _started(connection, node, report, report.at, now)
        else:
            if report.started_at is not None:
                _started(connection, node, report, report.started_at, now)
            _ended(connection, node, report, max_requeues, now)


def _jobs_of(connection: Connection, allocations: Collection[int]) -> dict[int, int]:
    """The jobs of allocations that there are."""
    rows = connection.exec_driver_sql(
        "SELECT l.id, l.job_id FROM json_each(?) w CROSS JOIN allocations l ON l.id = w.value",
        (json.dumps(list(allocations)),),
    )
    return {allocation: job for allocation, job in rows}  # noqa: C416 - rows are no pairs to mypy


def _current(connection: Connection, report: Report) -> JobState | None:
    """The job, if this allocation is still its present one."""
    state = read_states(connection, [report.job]).get(report.job)
    return state if state is not None and state.allocation == report.allocation else None


def _started(connection: Connection, node: str, report: Report, at: float, now: float) -> None:
    first = connection.exec_driver_sql(
        "UPDATE allocation_nodes SET started_at = ?, stdout = ?, stderr = ?"
        " WHERE allocation_id = ? AND node = ? AND started_at IS NULL",
        (at, report.stdout, report.stderr, report.allocation, node),
    )
    if not first.rowcount:
        return
    state = _current(connection, report)
    if state is None or state.state is not State.ALLOCATED:
        return
    connection.exec_driver_sql("UPDATE allocations SET started_at = ? WHERE id = ?", (at, report.allocation))
    change = Change(
        job=report.job,
        state=state.state,
        event=Event.START,
        actor=f"node:{node}",
        detail={"allocation": report.allocation},
        columns={"started_at": at},
    )
    apply_changes(connection, [change], now)


def _ended(connection: Connection, node: str, report: Report, max_requeues: int, now: float) -> None:
    first = connection.exec_driver_sql(
        "UPDATE allocation_nodes SET ended_at = ?, exit_status = ?, signal = ?, cause = ?, message = ?,"
        " stdout = coalesce(?, stdout), stderr = coalesce(?, stderr), max_rss_bytes = ?, cpu_s = ?"
        " WHERE allocation_id = ? AND node = ? AND ended_at IS NULL",
        (
            report.at,
            report.exit_status,
            report.signal,
            report.cause,
            report.message,
            report.stdout,
            report.stderr,
            report.max_rss_bytes,
            report.cpu_s,
            report.allocation,
            node,
        ),
    )
    if not first.rowcount:
        return
    state = _current(connection, report)
    if state is None:
        return
    parts = connection.exec_driver_sql(
        "SELECT ended_at, exit_status, signal, cause FROM allocation_nodes WHERE allocation_id = ?"
        " ORDER BY ended_at, node",
        (report.allocation,),
    ).all()
    if any(ended is None for ended, *_ in parts):
        _end_the_others(connection, report)
        return
    ends = [NodeEnd(exit_status=status, signal=signal, cause=cause) for _, status, signal, cause in parts]
    end = decide_end(
        ends,
        cancelled=state.cancelled_by is not None,
        may_requeue=state.requeue and state.requeues < max_requeues,
    )
    _finish(connection, report, state, end, node, now)


def _end_the_others(connection: Connection, report: Report) -> None:
    """A gang fails together: once a part has gone wrong, the rest is ended too."""
    if report.exit_status != 0 or report.signal is not None or report.cause is not None:
        connection.exec_driver_sql(
            "UPDATE allocations SET cancel = 'gang' WHERE id = ? AND cancel IS NULL", (report.allocation,)
        )


def _finish(connection: Connection, report: Report, state: JobState, end: JobEnd, node: str, now: float) -> None:
    connection.exec_driver_sql("UPDATE allocations SET ended_at = ? WHERE id = ?", (report.at, report.allocation))
    again = end.event is Event.REQUEUE
    columns = (
        {"requeues": state.requeues + 1, "allocation_id": None, "nodelist": None, "started_at": None}
        if again
        else {"ended_at": report.at, "exit_status": end.exit_status, "signal": end.signal}
    )
    change = Change(
        job=report.job,
        state=state.state,
        event=end.event,
        actor=state.cancelled_by or f"node:{node}",
        cause=end.cause,
        detail={"allocation": report.allocation, "exit_status": end.exit_status, "signal": end.signal},
        columns=columns,
    )
    apply_changes(connection, [change], now)

"""Agents' reports: starts and ends, each taken once however often it is delivered.

What many reports are about is read at once, decided in the order in which they came, and written at once: statements
per transaction, not per report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.change.job_change import Change, JobState, Value
from rankd.core.model.believable import (
    LARGEST_SIGNAL,
    LARGEST_STATUS,
    believable_cpu_s,
    believable_number,
    believable_rss,
    believable_text,
    believable_time,
)
from rankd.core.model.job import Event, State, next_state
from rankd.core.model.outcome import JobEnd, NodeEnd, decide_end
from rankd.store.record.job import apply_changes, read_states
from rankd.wire.message import Report

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
    """Apply reports of (node, report) in the order in which they came."""
    taking = _Taking(connection, reports, max_requeues)
    for node, report in reports:
        taking.take(node, report, now)
    taking.write(connection, now)


class _Part(msgspec.Struct, kw_only=True):
    """A node's part in an allocation."""

    started: bool
    ended_at: float | None
    end: NodeEnd


class _Taking:
    """What reports are about, as the ones taken so far leave it, and what is to be written for them."""

    def __init__(self, connection: Connection, reports: Sequence[tuple[str, Report]], max_requeues: int) -> None:
        self._max_requeues = max_requeues
        self._jobs: dict[int, int] = {}
        self._allocated_at: dict[int, float] = {}
        self._parts: dict[int, dict[str, _Part]] = {}
        allocations = list(dict.fromkeys(report.allocation for _, report in reports))
        for id_, job, allocated_at, node, started, ended_at, status, signal, cause in connection.exec_driver_sql(
            _PARTS, (json.dumps(allocations),)
        ):
            self._jobs[id_], self._allocated_at[id_] = job, allocated_at
            end = NodeEnd(exit_status=status, signal=signal, cause=cause)
            self._parts.setdefault(id_, {})[node] = _Part(started=bool(started), ended_at=ended_at, end=end)
        self._states = read_states(connection, sorted(set(self._jobs.values())))
        self._changes: list[Change] = []
        self._rows: dict[str, list[tuple[Value, ...]]] = {
            statement: [] for statement in (_PART_STARTED, _PART_ENDED, _STARTED, _ENDED, _GANG)
        }

    def take(self, node: str, said: Report, now: float) -> None:
        """The next one; one about what there is not, or about what is known, changes nothing."""
        part = self._parts.get(said.allocation, {}).get(node)
        if part is None:
            return
        report = _believable(said, self._allocated_at[said.allocation], now)
        if report.kind == "started":
            self._start(node, part, report, report.at)
            return
        if report.started_at is not None:
            self._start(node, part, report, report.started_at)
        self._end(node, part, report)

    def write(self, connection: Connection, now: float) -> None:
        """All that came of it."""
        for statement, rows in self._rows.items():
            if rows:
                connection.exec_driver_sql(statement, rows)
        apply_changes(connection, self._changes, now)

    def _current(self, allocation: int) -> JobState | None:
        """The job, if this allocation is still its present one."""
        state = self._states.get(self._jobs[allocation])
        return state if state is not None and state.allocation == allocation else None

    def _change(self, state: JobState, change: Change, **fields: object) -> None:
        self._changes.append(change)
        after = next_state(change.job, change.state, change.event)
        self._states[change.job] = msgspec.structs.replace(state, state=after, **fields)

    def _start(self, node: str, part: _Part, report: Report, at: float) -> None:
        if part.started:
            return
        part.started = True
        self._rows[_PART_STARTED].append((at, report.stdout, report.stderr, report.allocation, node))
        state = self._current(report.allocation)
        if state is None or state.state is not State.ALLOCATED:
            return
        self._rows[_STARTED].append((at, report.allocation))
        change = Change(
            job=self._jobs[report.allocation],
            state=state.state,
            event=Event.START,
            actor=f"node:{node}",
            detail={"allocation": report.allocation},
            columns={"started_at": at},
        )
        self._change(state, change)

    def _end(self, node: str, part: _Part, report: Report) -> None:
        if part.ended_at is not None:
            return
        part.ended_at = report.at
        part.end = NodeEnd(exit_status=report.exit_status, signal=report.signal, cause=report.cause)
        self._rows[_PART_ENDED].append((
            report.at, report.exit_status, report.signal, report.cause, report.message, report.stdout, report.stderr,
            report.max_rss_bytes, report.cpu_s, report.measured, report.allocation, node,
        ))  # fmt: skip
        state = self._current(report.allocation)
        if state is None:
            return
        parts = self._parts[report.allocation]
        if any(other.ended_at is None for other in parts.values()):
            self._end_the_others(report)
            return
        ends = [own.end for _, own in sorted(parts.items(), key=lambda item: (item[1].ended_at or 0.0, item[0]))]
        may_requeue = state.requeue and state.requeues < self._max_requeues
        end = decide_end(
            ends,
            cancelled=state.cancelled_by is not None,
            may_requeue=may_requeue,
            started=state.state is not State.ALLOCATED,
        )
        self._finish(node, report, state, end)

    def _end_the_others(self, report: Report) -> None:
        """A gang fails together: once a part has gone wrong, the rest is ended too."""
        if report.exit_status != 0 or report.signal is not None or report.cause is not None:
            self._rows[_GANG].append((report.allocation,))

    def _finish(self, node: str, report: Report, state: JobState, end: JobEnd) -> None:
        self._rows[_ENDED].append((report.at, report.allocation))
        again = end.event in (Event.REQUEUE, Event.TAKE_BACK)
        requeues = state.requeues + (end.event is Event.REQUEUE)
        columns: dict[str, Value] = (
            {"requeues": requeues, "allocation_id": None, "nodelist": None, "started_at": None}
            if again
            else {"ended_at": report.at, "exit_status": end.exit_status, "signal": end.signal}
        )
        change = Change(
            job=self._jobs[report.allocation],
            state=state.state,
            event=end.event,
            actor="intake" if end.event is Event.TAKE_BACK else state.cancelled_by or f"node:{node}",
            cause=end.cause,
            detail={"allocation": report.allocation, "exit_status": end.exit_status, "signal": end.signal},
            columns=columns,
        )
        kept = (None, requeues) if again else (state.allocation, state.requeues)
        self._change(state, change, allocation=kept[0], requeues=kept[1])


def _believable(said: Report, allocated_at: float, now: float) -> Report:
    """The report within what a node can know."""
    at = believable_time(said.at, allocated_at, now)
    started_at = None if said.started_at is None else believable_time(said.started_at, allocated_at, at)
    return msgspec.structs.replace(
        said,
        at=at,
        started_at=started_at,
        exit_status=believable_number(said.exit_status, LARGEST_STATUS),
        signal=believable_number(said.signal, LARGEST_SIGNAL),
        cause=believable_text(said.cause),
        message=believable_text(said.message),
        stdout=believable_text(said.stdout),
        stderr=believable_text(said.stderr),
        max_rss_bytes=believable_rss(said.max_rss_bytes),
        cpu_s=believable_cpu_s(said.cpu_s, at - allocated_at),
    )

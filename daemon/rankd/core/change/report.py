"""The effects of nodes' reports on allocations and jobs: starts and ends.

Each report counts once, even if it is delivered several times. A report changes nothing if its allocation or its node's
part does not exist, or if the start or end is known already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.change.job_change import VIA, Change, JobState, Value
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
from rankd.core.model.outcome import PROLOG_FAILED, JobEnd, NodeEnd, decide_end, is_well
from rankd.core.model.report import Report
from rankd.core.printable import printable

LONGEST_DRAIN = 500
"""Characters of the reason of a drain that a node reports."""


class Part(msgspec.Struct, kw_only=True):
    """A node's part in an allocation. ``end`` is only valid if ``ended_at`` is set.

    ``holds``: the node runs nothing, and is the job's until its script ends on the first node.
    """

    started: bool
    ended_at: float | None
    end: NodeEnd
    holds: bool = False


class Allocated(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation with reports: its job, its time (UTC seconds), and its parts by node."""

    job: int
    allocated_at: float
    parts: dict[str, Part]


class PartChange(NamedTuple):
    """A node's part started or ended at this time (UTC seconds). The values of ``report`` are within their bounds."""

    at: float
    node: str
    report: Report


class AllocationChange(NamedTuple):
    """An allocation started or ended at this time (UTC seconds)."""

    at: float
    allocation: int


class ReportEffects(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to write, in the order of their decisions.

    ``gang_ends``: allocations whose other parts must be ended, because one part has failed, or the script has ended.
    ``foreign``: (node, allocation) of reports about allocations that the node was never given.
    ``drains``: nodes that must take no more jobs, with the reason.
    """

    part_starts: list[PartChange] = []
    part_ends: list[PartChange] = []
    starts: list[AllocationChange] = []
    ends: list[AllocationChange] = []
    gang_ends: list[int] = []
    foreign: list[tuple[str, int]] = []
    drains: dict[str, str] = {}
    changes: list[Change] = []


def decide_reports(
    reports: Sequence[tuple[str, Report]],
    allocations: Mapping[int, Allocated],
    states: Mapping[int, JobState],
    max_requeues: int,
    now: float,
) -> ReportEffects:
    """The effects of (node, report) pairs, in their order. ``states``: of the allocations' jobs, by id."""
    decision = _Decision(allocations, states, max_requeues)
    for node, report in reports:
        decision.add(node, report, now)
    return decision.effects


class _Decision:
    """The allocations and jobs after the reports so far, and the changes to write for these reports."""

    def __init__(self, allocations: Mapping[int, Allocated], states: Mapping[int, JobState], max_requeues: int) -> None:
        self.effects = ReportEffects()
        self._allocations = allocations
        self._states = dict(states)
        self._max_requeues = max_requeues

    def add(self, node: str, original: Report, now: float) -> None:
        """Apply the next report."""
        allocation = self._allocations.get(original.allocation)
        part = None if allocation is None else allocation.parts.get(node)
        if allocation is None or part is None:
            self.effects.foreign.append((node, original.allocation))
            return
        report = _believable(original, allocation.allocated_at, now)
        if report.drain:  # also if the end is known already: the job may have ended as lost before its epilog failed
            self.effects.drains[node] = report.drain
        if report.kind == "started":
            self._start(node, part, report, report.at)
            return
        if report.started_at is not None:
            self._start(node, part, report, report.started_at)
        self._end(node, part, report)

    def _current(self, allocation: int) -> JobState | None:
        """The state of the allocation's job, or None if the job has another allocation now."""
        state = self._states.get(self._allocations[allocation].job)
        return state if state is not None and state.allocation == allocation else None

    def _change(self, state: JobState, change: Change, **fields: object) -> None:
        self.effects.changes.append(change)
        after = next_state(change.job, change.state, change.event)
        self._states[change.job] = msgspec.structs.replace(state, state=after, **fields)

    def _start(self, node: str, part: Part, report: Report, at: float) -> None:
        if part.started:
            return
        part.started = True
        self.effects.part_starts.append(PartChange(at, node, report))
        state = self._current(report.allocation)
        if state is None or state.state is not State.ALLOCATED:
            return
        self.effects.starts.append(AllocationChange(at, report.allocation))
        change = Change(
            job=self._allocations[report.allocation].job,
            state=state.state,
            event=Event.START,
            actor=f"node:{node}",
            detail={"allocation": report.allocation},
            columns={"started_at": at},
        )
        self._change(state, change)

    def _end(self, node: str, part: Part, report: Report) -> None:
        if part.ended_at is not None:
            return
        part.ended_at = report.at
        part.end = NodeEnd(exit_status=report.exit_status, signal=report.signal, cause=report.cause)
        self.effects.part_ends.append(PartChange(report.at, node, report))
        state = self._current(report.allocation)
        if state is None:
            return
        parts = self._allocations[report.allocation].parts
        if all(other.ended_at is not None for other in parts.values()):
            self._finish(node, report, state, self._job_end(parts, state))
        elif not is_well(part.end) or _leaves_holders(parts):
            self.effects.gang_ends.append(report.allocation)

    def _job_end(self, parts: Mapping[str, Part], state: JobState) -> JobEnd:
        """How the job ended. All its parts have ended."""
        is_left = state.requeues < self._max_requeues
        return decide_end(
            _deciding(parts),
            cancelled=state.cancelled_by is not None,
            may_requeue=state.requeue and is_left,
            started=state.state is not State.ALLOCATED,
            is_left=is_left,
        )

    def _finish(self, node: str, report: Report, state: JobState, end: JobEnd) -> None:
        self.effects.ends.append(AllocationChange(report.at, report.allocation))
        is_back = end.event is Event.TAKE_BACK
        again = is_back or end.event is Event.REQUEUE
        requeues = state.requeues + (end.event is Event.REQUEUE or (is_back and end.cause == PROLOG_FAILED))
        columns: dict[str, Value] = (
            {"requeues": requeues, "allocation_id": None, "nodelist": None, "started_at": None}
            if again
            else {"ended_at": report.at, "exit_status": end.exit_status, "signal": end.signal}
        )
        detail = {"allocation": report.allocation, "exit_status": end.exit_status, "signal": end.signal}
        change = Change(
            job=self._allocations[report.allocation].job,
            state=state.state,
            event=end.event,
            actor="intake" if is_back else state.cancelled_by or f"node:{node}",
            cause=end.cause,
            detail=detail if is_back or state.cancelled_via is None else detail | {VIA: state.cancelled_via},
            columns=columns,
        )
        allocation, requeues = (None, requeues) if again else (state.allocation, state.requeues)
        self._change(state, change, allocation=allocation, requeues=requeues)


def _deciding(parts: Mapping[str, Part]) -> list[NodeEnd]:
    """The ends that decide about the job, in their order: a node that only held it decides if it failed earlier."""
    in_order = sorted(parts.items(), key=lambda item: (item[1].ended_at or 0.0, item[0]))
    script_at = max((part.ended_at or 0.0 for part in parts.values() if not part.holds), default=0.0)
    return [
        part.end
        for _, part in in_order
        if not part.holds or (part.end.cause != "cancel" and (part.ended_at or 0.0) < script_at)
    ]


def _leaves_holders(parts: Mapping[str, Part]) -> bool:
    """Whether only nodes are left that hold the allocation for a script that has ended."""
    return all(part.holds or part.ended_at is not None for part in parts.values())


def _believable(report: Report, allocated_at: float, now: float) -> Report:
    """The report with its values within their bounds."""
    at = believable_time(report.at, allocated_at, now)
    started_at = None if report.started_at is None else believable_time(report.started_at, allocated_at, at)
    return msgspec.structs.replace(
        report,
        at=at,
        started_at=started_at,
        exit_status=believable_number(report.exit_status, LARGEST_STATUS),
        signal=believable_number(report.signal, LARGEST_SIGNAL),
        cause=believable_text(report.cause),
        message=believable_text(report.message),
        drain=None if report.drain is None else printable(report.drain)[:LONGEST_DRAIN],
        stdout=believable_text(report.stdout),
        stderr=believable_text(report.stderr),
        max_rss_bytes=believable_rss(report.max_rss_bytes),
        cpu_s=believable_cpu_s(report.cpu_s, at - allocated_at),
    )

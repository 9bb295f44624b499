"""A past cycle again: its input in numbers, its decision, and why the others waited. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rankd.core.evaluate.document import Document, Id, JobEntry
from rankd.core.evaluate.result import Result
from rankd.core.model.job import State
from rankd.core.model.node import NodeState
from rankd.core.model.setting import PrioritySettings, SchedulingSettings


class Instant(msgspec.Struct, frozen=True, kw_only=True):
    """The cycle. ``at`` and ``ranked_at``: UTC seconds. ``cycle`` None: none started jobs then.

    ``event``: the last job event that counted. ``notes``: what the records can't show as it was.
    """

    at: float
    cycle: int | None
    generation: int
    ranked_at: float
    event: int
    notes: list[str] = []


class StartedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that started. ``job``: its record; ``name``: as people name it, ``17_3`` for a task."""

    job: Id
    name: str
    nodes: list[str]


class ReservedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job for which nodes are kept from ``starts_at`` (UTC seconds) on."""

    job: Id
    name: str
    nodes: list[str]
    starts_at: float


class ReplayedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waited before the cycle. ``reason`` None: it started."""

    id: Id
    name: str
    user: str | None
    rank: int | None
    priority: int
    reason: str | None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The cycle, replayed. ``as_recorded`` None: nothing is recorded of it. ``recorded``: what is, otherwise.

    ``jobs``: by rank, then those without.
    """

    instant: Instant
    policy: str
    weights: dict[str, float]
    backfill: str
    waiting: int
    running: int
    nodes: int
    nodes_up: int
    started: list[StartedJob]
    reservations: list[ReservedJob]
    jobs: list[ReplayedJob]
    as_recorded: bool | None
    recorded: list[StartedJob]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A job, or the task of an array, and its nodes, as recorded."""

    job: int
    task: int | None = None
    nodes: list[str]


def replay(about: Instant, document: Document, result: Result, recorded: Sequence[Recorded] | None) -> Replay:
    """The answer. ``result``: the decisions on the document. ``recorded``: what the cycle started; None: unknown."""
    entries = {entry.id: entry for entry in document.jobs}
    settings, scheduling = document.priority or PrioritySettings(), document.scheduling or SchedulingSettings()
    started = [_started(entries[row.job], row.task, row.nodes) for row in result.allocations]
    known = [_recorded(row) for row in recorded or ()]
    ranked = sorted(result.jobs, key=lambda row: (row.rank is None, row.rank or 0))
    return Replay(
        instant=about,
        policy=settings.policy,
        weights=dict(settings.weights),
        backfill=scheduling.backfill,
        waiting=_count(document.jobs, State.PENDING),
        running=_count(document.jobs, State.ALLOCATED, State.RUNNING),
        nodes=len(document.nodes),
        nodes_up=sum(node.state is NodeState.UP for node in document.nodes),
        started=started,
        reservations=[
            ReservedJob(job=row.job, name=_name(entries[row.job], None), nodes=row.nodes, starts_at=row.starts_at)
            for row in result.reservations
        ],
        jobs=[
            ReplayedJob(
                id=row.id,
                name=_name(entries[row.id], None),
                user=entries[row.id].user,
                rank=row.rank,
                priority=row.priority,
                reason=row.reason,
            )
            for row in ranked
        ],
        as_recorded=None if recorded is None else _same(started, known),
        recorded=known,
    )


def _count(jobs: Iterable[JobEntry], *states: State) -> int:
    return sum(job.state in states for job in jobs)


def _started(entry: JobEntry, task: object, nodes: list[str]) -> StartedJob:
    return StartedJob(job=entry.id, name=_name(entry, task if isinstance(task, int) else None), nodes=nodes)


def _recorded(row: Recorded) -> StartedJob:
    return StartedJob(job=row.job, name=str(row.job) if row.task is None else f"{row.job}_{row.task}", nodes=row.nodes)


def _same(one: Iterable[StartedJob], other: Iterable[StartedJob]) -> bool:
    return [(row.name, row.nodes) for row in one] == [(row.name, row.nodes) for row in other]


def _name(entry: JobEntry, task: int | None) -> str:
    if entry.array_job is not None:
        return f"{entry.array_job}_{entry.array_task}"
    return str(entry.id) if task is None else f"{entry.id}_{task}"

"""The jobs of a trace as they were recorded, and which of them a simulation takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

Column = Literal["requested", "allocated", "max"]
UNKNOWN = -1.0
"""What a trace says of a value that it does not know."""


Amounts = tuple[tuple[str, int], ...]
"""Amounts by type of resource, on all nodes of a job together: bytes of memory, or a number of GPUs."""

UNKNOWN_USER = "unknown"
"""The user of jobs whose user the trace does not know."""


class TraceJob(NamedTuple):
    """A record. Times in seconds; -1 is an unknown number, "" an unknown name.

    ``whole_nodes``: how many nodes it had for itself alone; 0 if it shared them, or if the trace does not know that.
    ``nodes``: how many nodes it asked for; 0 if the trace does not know that. ``others``: what it asked for besides
    cores.
    """

    number: str
    submit_s: float
    run_s: float
    allocated: float
    requested: float
    limit_s: float
    user: str
    group: str
    queue: str
    partition: str
    whole_nodes: int = 0
    nodes: int = 0
    others: Amounts = ()


TooLarge = Callable[[TraceJob, int], bool]
"""Whether the machine is too small for a record with this number of processors."""


def over(processors: int) -> TooLarge:
    """For a machine of which only the number of processors is known."""
    return lambda _, size: size > processors


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are simulated, and with which values.

    ``most``: the first records of the file, before anything is left out. ``begin_s`` and ``end_s``: submissions from
    ``begin_s`` up to, but not including, ``end_s``. ``limit``: ``requested``, ``exact``, or a factor of the requested
    time limit.
    """

    column: Column = "max"
    most: int | None = None
    begin_s: float | None = None
    end_s: float | None = None
    limit: Literal["requested", "exact"] | float = "requested"


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of jobs that are not simulated, by the first reason that applies."""

    no_run_time: int = 0
    no_limit: int = 0
    no_size: int = 0
    too_large: int = 0


class WorkJob(NamedTuple):
    """A job of a simulation. ``run_s`` is at most ``limit_s``.

    ``whole_nodes``: how many nodes it needs for itself alone, with ``cores`` on each; 0: it shares nodes. ``nodes``:
    how many nodes it asks for; 0: any number. ``others``: what it needs besides cores.
    """

    number: str
    submit_s: float
    run_s: float
    processors: int
    limit_s: float
    user: str
    group: str
    queue: str
    partition: str
    whole_nodes: int = 0
    cores: int = 0
    nodes: int = 0
    others: Amounts = ()


def select(records: Iterable[TraceJob], selection: Selection, is_too_large: TooLarge) -> tuple[list[WorkJob], LeftOut]:
    """The jobs to simulate, by submission, then in the order of the records."""
    jobs: list[WorkJob] = []
    counts = dict.fromkeys(LeftOut.__struct_fields__, 0)
    for place, record in enumerate(records):
        if selection.most is not None and place >= selection.most:
            break
        if not _is_between(record.submit_s, selection):
            continue
        reason = _reason(record, selection, is_too_large)
        if reason is None:
            jobs.append(_job(record, selection))
        else:
            counts[reason] += 1
    jobs.sort(key=lambda job: job.submit_s)
    return jobs, LeftOut(**counts)


def _is_between(at: float, selection: Selection) -> bool:
    begin_s, end_s = selection.begin_s, selection.end_s
    return (begin_s is None or at >= begin_s) and (end_s is None or at < end_s)


def _reason(record: TraceJob, selection: Selection, is_too_large: TooLarge) -> str | None:
    """Why a record is left out; None if it is simulated."""
    size = _size(record, selection.column)
    if record.run_s <= 0:
        return "no_run_time"
    if record.limit_s <= 0:
        return "no_limit"
    if size <= 0:
        return "no_size"
    return "too_large" if is_too_large(record, size) else None


def _size(record: TraceJob, column: Column) -> int:
    sizes: Sequence[float] = (record.requested, record.allocated)
    if column == "requested":
        sizes = (record.requested,)
    elif column == "allocated":
        sizes = (record.allocated,)
    return math.ceil(max(sizes))


def _job(record: TraceJob, selection: Selection) -> WorkJob:
    run_s, limit_s = min(record.run_s, record.limit_s), record.limit_s
    if selection.limit == "exact":
        limit_s = run_s
    elif selection.limit != "requested":
        limit_s *= selection.limit
    return WorkJob(
        number=record.number,
        submit_s=record.submit_s,
        run_s=min(run_s, limit_s),
        processors=_size(record, selection.column),
        limit_s=limit_s,
        user=record.user or UNKNOWN_USER,
        group=record.group,
        queue=record.queue,
        partition=record.partition,
        whole_nodes=record.whole_nodes,
        cores=math.ceil(max(record.requested, 0.0) / record.whole_nodes) if record.whole_nodes else 0,
        nodes=record.nodes,
        others=record.others,
    )

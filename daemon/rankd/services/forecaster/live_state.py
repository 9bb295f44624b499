"""The live state for a forecast, from the scheduler's memory and the records. All of it is of one instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.core.admission.dependency import NEVER, Blocked
from rankd.core.forecast.dependency import needs_of
from rankd.core.forecast.live import NO_JOB, LaterJob, Live, LivePartition, OpenWork
from rankd.core.forecast.outlook import AWAITED, HELD, HELD_BACK
from rankd.core.forecast.pace import Paces
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.placement.problem import PartitionProblem, WaitingJobs
from rankd.core.ranking.columns import IntArray
from rankd.mirror.occupancy import Opened
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.connection import Connection
from rankd.store.feed.forecast import BlockedState, OpenJob, blocked_state, open_jobs, pairs_of

WANTED = "forecast"
"""The reason for which the scheduler's memory is read."""

_LAST = 2**62

Untold = dict[int, tuple[str, str]]


class Gathered(NamedTuple):
    """What a forecast begins with. ``untold``: reason and fact of jobs of which no start can be told.

    ``beyond``: how many pending jobs are beyond the horizon. ``generation``: the ranking.
    """

    live: Live
    untold: Untold
    beyond: int
    generation: int


def gather(
    connection: Connection,
    source: SchedulingSource,
    paces: Paces,
    policies: Mapping[str, NodeSortPolicy],
    horizon: int,
    now: float,
) -> Gathered:
    """Read what changed, and put the state together. ``horizon``: how many pending jobs it has at most."""
    source.triggers = {WANTED}
    source.refresh(connection, now)
    source.triggers = set()
    problems = source.problems(now)
    ranked = _jobs_of(problems)
    cut = [_within(source, problem, threshold) for problem, threshold in _thresholds(source, problems, horizon)]
    pairs = pairs_of(connection, _jobs_of(cut).tolist())
    unranked = _Unranked(source, ranked, problems)
    later, untold = unranked.sorted_out(connection, horizon)
    jobs = open_jobs(connection)
    partitions = [
        _partition(problem, opened, later[at], jobs, paces, policies)
        for at, (problem, opened) in enumerate(zip(cut, source.opened(), strict=True))
    ]
    shares = {job: paces.of(pair) for job, pair in pairs.items()}
    live = Live(now=now, partitions=partitions, shares=shares, site_share=paces.of_site)
    return Gathered(live, untold, len(np.unique(ranked)) - len(pairs) + unranked.beyond, source.order.generation)


def _jobs_of(problems: Sequence[PartitionProblem]) -> IntArray:
    """All jobs that wait in these partitions, int64 (n,)."""
    columns = (own.jobs for problem in problems for own in problem.waiting.values())
    return np.concatenate([np.empty(0, dtype=np.int64), *columns])


def _partition(
    problem: PartitionProblem,
    opened: Sequence[Opened],
    later: Sequence[LaterJob],
    jobs: Mapping[int, OpenJob],
    paces: Paces,
    policies: Mapping[str, NodeSortPolicy],
) -> LivePartition:
    running = [
        OpenWork(
            job=jobs[one.id].job,
            begun_at=one.begun_at,
            limit_s=one.limit_s,
            share=paces.of(jobs[one.id].pair),
            tenant=one.tenant,
            array=NO_JOB if one.array is None else one.array,
            devices=one.devices,
        )
        for one in opened
    ]
    owners = np.repeat(np.arange(len(opened), dtype=np.int64), [one.rows for one in opened])
    return LivePartition(
        problem=problem, node_sort=policies[problem.node_sort.type], running=running, owners=owners, later=later
    )


# --- the horizon ------------------------------------------------------------------------------------------------------


def _thresholds(
    source: SchedulingSource, problems: Sequence[PartitionProblem], horizon: int
) -> Iterator[tuple[PartitionProblem, int | None]]:
    """Each partition with the last place of the ranking within the horizon; None if all jobs are within."""
    places = [_places(source, queue, own) for problem in problems for queue, own in problem.waiting.items()]
    every = np.concatenate([np.empty(0, dtype=np.int64), *places])
    last = None if len(every) <= horizon else int(np.partition(every, horizon - 1)[horizon - 1])
    return ((problem, last) for problem in problems)


def _places(source: SchedulingSource, queue: int, own: WaitingJobs) -> IntArray:
    """A number for each job that grows with its rank. Jobs that are not ranked yet are last."""
    known = source.order.places(queue)[np.isin(source.order.leaf(queue).ids, own.jobs, assume_unique=True)]
    return np.concatenate([known, np.full(len(own.jobs) - len(known), _LAST, dtype=np.int64)])


def _within(source: SchedulingSource, problem: PartitionProblem, last: int | None) -> PartitionProblem:
    """The problem without the jobs beyond the horizon."""
    if last is None:
        return problem
    waiting = {}
    for queue, own in problem.waiting.items():
        kept = _places(source, queue, own) <= last
        if kept.any():
            columns = {
                name: column[kept]
                for name in WaitingJobs.__struct_fields__
                if (column := getattr(own, name)) is not None
            }
            waiting[queue] = msgspec.structs.replace(own, **columns)
    return msgspec.structs.replace(problem, waiting=waiting, pending=None)


# --- jobs that are not ranked -----------------------------------------------------------------------------------------


class _Unranked:
    """The pending jobs that no cycle considers now. ``beyond``: how many of them are beyond the horizon."""

    def __init__(self, source: SchedulingSource, ranked: IntArray, problems: Sequence[PartitionProblem]) -> None:
        self._columns, self._source = source.pending.columns, source
        self._partition_of = {view.id: at for at, problem in enumerate(problems) for view in problem.queues}
        self._n_partitions = len(problems)
        columns = self._columns
        rows = np.flatnonzero(columns.is_pending)
        rows = rows[~np.isin(columns.ids[rows], ranked, assume_unique=True)]
        self._rows = dict(zip(columns.ids[rows].tolist(), rows.tolist(), strict=True))
        self.beyond = 0

    def sorted_out(self, connection: Connection, horizon: int) -> tuple[list[list[LaterJob]], Untold]:
        """Those that become eligible later, by partition; and those of which no start can be told."""
        ids = sorted(self._rows)[:horizon]
        self.beyond = len(self._rows) - len(ids)
        eligible = [job for job in ids if self._columns.is_eligible[self._rows[job]]]
        others = [job for job in ids if not self._columns.is_eligible[self._rows[job]]]
        state = blocked_state(connection, others)
        blocked = {one.job: one for one in state.blocked}
        untold: Untold = {job: (HELD, "") for job in others if job not in blocked or blocked[job].held}
        later: list[list[LaterJob]] = [[] for _ in range(self._n_partitions)]
        for job in others:
            if job not in untold:
                self._add(blocked[job], state, later, untold)
        untold |= dict.fromkeys(self._held_back(eligible), (HELD_BACK, "its queue lets other applications go first"))
        return later, untold

    def _add(self, one: Blocked, state: BlockedState, later: list[list[LaterJob]], untold: Untold) -> None:
        needs = needs_of(one, state.progress, state.before)
        if isinstance(needs, str):
            untold[one.job] = (NEVER if "ended otherwise" in needs else AWAITED, needs)
            return
        row, columns = self._rows[one.job], self._columns
        queue = int(columns.queues[row])
        if queue in self._partition_of:
            array = self._source.pending.arrays.get(one.job)
            found = LaterJob(
                job=one.job,
                queue=queue,
                kind=int(columns.kinds[row]),
                begin_at=one.begin_at or 0.0,
                needs=needs,
                tasks=1 if array is None else max(1, array.tasks),
                submitted_at=float(columns.submitted_at[row]),
                application=int(columns.applications[row]),
            )
            later[self._partition_of[queue]].append(found)

    def _held_back(self, eligible: Sequence[int]) -> list[int]:
        """Those that the ranking knows and has left out; newer jobs will be in the next ranking."""
        known = self._source.order.revision
        return [job for job in eligible if self._columns.revisions[self._rows[job]] <= known]

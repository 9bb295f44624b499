"""The scheduling cycle of a document: the ranked jobs on its nodes, partition by partition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.amount import add
from rankd.core.evaluate.document import Id
from rankd.core.evaluate.state import Situation
from rankd.core.model.index_set import IndexSet
from rankd.core.model.quantity import Resources
from rankd.core.model.setting import SchedulingSettings
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_table import NodeSortPolicy, NodeTable
from rankd.core.placement.problem import Hold, PartitionProblem, Placement, Reservation, Tenant, WaitingJobs
from rankd.core.placement.request import Kind, Shape
from rankd.core.placement.task_turn import TaskTurn, in_turn
from rankd.core.ranking.columns import IntArray
from rankd.core.ranking.queue_view import roll_up
from rankd.core.ranking.ranking import Ranking

NodeSorts = Mapping[str, NodeSortPolicy]

_DEFAULTS = SchedulingSettings()


class Placed(msgspec.Struct, frozen=True):
    """The jobs that start now and the reservations, in the order of the decisions.

    ``reasons``: why each other job does not start, by job number.
    """

    placements: list[Placement]
    reservations: list[Reservation]
    reasons: dict[int, str]


def place(situation: Situation, ranking: Ranking, sorts: NodeSorts) -> Placed:
    """Run a cycle for the ranked jobs of each partition."""
    placed = Placed([], [], {})
    cycles = _Cycles(situation, ranking)
    for at, partition in enumerate(situation.catalogue.partitions):
        outcome = run_cycle(cycles.problem(at), sorts[partition.nodesort.type])
        placed.placements.extend(outcome.placements)
        placed.reservations.extend(outcome.reservations)
        placed.reasons.update((job, reason.reason) for job, reason in outcome.by_job.items())
    return placed


class _Cycles:
    """The input of the cycles of all partitions."""

    def __init__(self, situation: Situation, ranking: Ranking) -> None:
        self._situation = situation
        self._scheduling = situation.document.scheduling or _DEFAULTS
        self._kinds: dict[object, int] = {}
        self._listed = KindTable()
        self._waiting = self._waiting_jobs(ranking)
        self._holds = [
            Hold(
                node=part.node,
                resources=part.resources,
                exclusive=part.exclusive,
                devices=part.devices,
                ends_at=part.since + self._limit(part.time_limit_s, math.inf),
            )
            for part in situation.inventory.parts
        ]
        self._tenants = self._running()
        self._numbers = self._arrays()
        self._rooms, self._array_of = self._array_rooms(), self._arrays_of_tasks()
        self._pending = {row.id: row.pending for row in ranking.queues}

    def problem(self, at: int) -> PartitionProblem:
        """The input of the cycle of one partition, by its index."""
        situation = self._situation
        partition, views = situation.catalogue.partitions[at], situation.state.queues[at]
        return PartitionProblem(
            now=situation.document.now,
            queues=views,
            waiting={view.id: self._waiting[view.id] for view in views if view.id in self._waiting},
            kinds=self._listed,
            used=roll_up(situation.state.used, views),
            pending=self._pending,
            nodes=situation.inventory.of(partition.name),
            holds=self._holds,
            tenants=self._tenants,
            applications=situation.state.applications,
            node_sort=partition.nodesort,
            backfill=self._scheduling.backfill,
            backfill_order=self._scheduling.backfill_order,
            reserve_depth=self._scheduling.reserve_depth,
            array_reserve=self._scheduling.array_reserve,
            array_rooms=self._rooms,
            array_of=self._array_of,
            billing=situation.settings.fairshare.billing,
            each=True,
        )

    def _limit(self, stated: float | None, none: float) -> float:
        limit = self._scheduling.default_time_limit_s if stated is None else stated
        return none if limit is None else limit

    def _waiting_jobs(self, ranking: Ranking) -> dict[int, WaitingJobs]:
        """The ranked jobs of each leaf, in the order of the ranking."""
        situation = self._situation
        jobs = {job.number: place for place, job in enumerate(situation.pending)}
        places = np.array([jobs[number] for number in ranking.ids.tolist()], dtype=np.int64)
        kinds = np.array(
            [self._kind(situation.pending[place], situation.shapes[place]) for place in places.tolist()],
            dtype=np.int64,
        )
        columns = situation.state.jobs
        queues = columns.queues[places]
        turns, rests = self._turns()
        waiting = {}
        for queue in np.unique(queues).tolist():
            own = np.flatnonzero(queues == queue)
            ranked = WaitingJobs(
                jobs=ranking.ids[own],
                priorities=ranking.ranked_priorities[own],
                kinds=kinds[own],
                applications=columns.applications[places[own]],
                submitted_at=columns.submitted_at[places[own]],
                tasks=self._tasks(ranking.ids[own].tolist()),
            )
            waiting[queue] = in_turn(ranked, turns, rests) if turns else ranked
        return waiting

    def _turns(self) -> tuple[dict[int, TaskTurn], dict[int, IndexSet]]:
        """The pending tasks that are jobs of their own, and the indices of arrays that may start."""
        pending, eligible = self._situation.pending, self._situation.eligible_tasks
        numbers = {job.entry.id: job.number for job in pending if job.array is not None}
        turns: dict[int, TaskTurn] = {}
        for job in pending:
            array, task = job.entry.array_job, job.entry.array_task
            if array is not None and task is not None:
                turns[job.number] = TaskTurn(numbers.setdefault(array, -1 - len(numbers)), task)
        arrays = {turn.array for turn in turns.values()}
        rests = {
            job.number: eligible.get(job.number, job.array.indices)
            for job in pending
            if job.array is not None and job.number in arrays
        }
        return turns, rests

    def _tasks(self, numbers: Sequence[int]) -> IntArray | None:
        """The tasks of each of these jobs; None if none is an array."""
        tasks = self._situation.state.tasks
        if tasks.keys().isdisjoint(numbers):
            return None
        return np.array([tasks.get(number, 1) for number in numbers], dtype=np.int64)

    def _array_rooms(self) -> dict[int, int]:
        """How many tasks of each array with a limit may start."""
        running = Counter(job.entry.array_job for job in self._situation.active)
        limits = {job.entry.id: job.array.limit for job in self._situation.pending if job.array is not None}
        for job in self._situation.pending:
            if job.entry.array_job is not None and job.entry.array_job in self._numbers:
                limits.setdefault(job.entry.array_job, job.entry.array_limit)
        return {self._numbers[id_]: limit - running[id_] for id_, limit in limits.items() if limit is not None}

    def _arrays(self) -> dict[Id | None, int]:
        """The numbers of arrays. One that is not pending, but has tasks that are, has a number below 0."""
        pending = self._situation.pending
        numbers: dict[Id | None, int] = {job.entry.id: job.number for job in pending if job.array is not None}
        for job in pending:
            if job.entry.array_job is not None and job.entry.array_limit is not None:
                numbers.setdefault(job.entry.array_job, -1 - len(numbers))
        return numbers

    def _arrays_of_tasks(self) -> dict[int, int]:
        """The arrays of pending tasks that are jobs of their own."""
        pending = self._situation.pending
        return {
            job.number: self._numbers[job.entry.array_job] for job in pending if job.entry.array_job in self._numbers
        }

    def _kind(self, job: Job, shape: Shape) -> int:
        entry = job.entry
        application = self._situation.book.place_of(job)
        key = (id(shape), entry.time_limit_s, entry.user, tuple(entry.groups), application)
        if key not in self._kinds:
            limit = self._limit(entry.time_limit_s, math.inf)
            self._kinds[key] = self._listed.add(
                Kind(
                    shape=shape,
                    time_limit_s=None if limit == math.inf else limit,
                    user=entry.user or "",
                    groups=tuple(entry.groups),
                    application=application,
                )
            )
        return self._kinds[key]

    def _running(self) -> list[Tenant]:
        """The running jobs, with the amounts that their allocations hold."""
        amounts: dict[int, Resources] = {}
        for held in self._situation.inventory.held:
            add(amounts.setdefault(held.job.number, {}), held.resources)
        return [
            Tenant(
                queue=job.queue,
                amount=amounts.get(job.number, {}),
                user=job.entry.user or "",
                groups=tuple(job.entry.groups),
                application=self._situation.book.place_of(job),
            )
            for job in self._situation.active
        ]


def node_order(situation: Situation, sorts: NodeSorts) -> dict[str, list[tuple[str, float]]]:
    """By partition, its nodes that are up, with their utilisation before the cycle. The next node to use is first."""
    holds = [
        Hold(node=part.node, resources=part.resources, exclusive=part.exclusive, devices=part.devices)
        for part in situation.inventory.parts
        if part.devices
    ]
    return {
        partition.name: NodeTable(
            situation.inventory.of(partition.name),
            sorts[partition.nodesort.type],
            partition.nodesort.resourceweights,
            holds,
        ).in_order()
        for partition in situation.catalogue.partitions
    }

"""One partition while a forecast runs: who runs, who waits, and the problem of the next cycle."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.forecast.holding import Given, Holdings, given, limit_of
from rankd.core.forecast.live import NO_JOB, LaterJob, LivePartition, OpenWork
from rankd.core.forecast.queue import ForecastQueue
from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import CycleOutcome, PartitionProblem, Placement, Tenant

RunTime = Callable[[int, float], float]
"""How long a job that starts will run, from its number and its time limit, in seconds."""


class _Runs(NamedTuple):
    """A job that runs: a task has its array's number."""

    job: int
    array: int
    tenant: Tenant
    devices: Mapping[int, int]


class PartitionRun:
    """:meth:`end`, :meth:`add` and :meth:`decide` change the state; :attr:`next_s` is when something happens by itself.

    ``ends_at``: of an open allocation, when it ends. ``run_s``: how long a job runs that starts.
    """

    def __init__(self, live: LivePartition, ends_at: Callable[[OpenWork], float], run_s: RunTime) -> None:
        problem = live.problem
        self._live = live
        self._run_s = run_s
        self._nodes = problem.nodes if isinstance(problem.nodes, NodeSet) else NodeSet(problem.nodes)
        self._holdings = Holdings(self._nodes, live.held, live.owners)
        self._memory = CycleMemory()
        self._paths = _paths(problem)
        self._used: dict[int, Resources] = {queue: dict(amounts) for queue, amounts in problem.used.items()}
        self._rooms = dict(problem.array_rooms)
        self._needs_tenants = any(view.limits or view.maxapplications for view in problem.queues)
        self._runs = {place: _of_open(work) for place, work in enumerate(live.running)}
        self._ends = [(ends_at(work), place) for place, work in enumerate(live.running)]
        heapq.heapify(self._ends)
        self._reserved_s = math.inf
        self._n_owners = len(live.running)
        self.queue = ForecastQueue(problem.waiting)

    @property
    def next_s(self) -> float:
        """The next end of a job, or the next start of a reservation."""
        return min(self._ends[0][0] if self._ends else math.inf, self._reserved_s)

    def end(self, now: float) -> list[tuple[int, int]]:
        """End the jobs that end by now; returns job and array of each."""
        gone: list[int] = []
        while self._ends and self._ends[0][0] <= now:
            gone.append(heapq.heappop(self._ends)[1])
        if not gone:
            return []
        ended = [self._runs.pop(place) for place in gone]
        self._holdings.end(gone, [one.devices for one in ended])
        for one in ended:
            self._charge(one, -1)
        return [(one.job, one.array) for one in ended]

    def add(self, later: LaterJob) -> None:
        """A job becomes eligible."""
        self.queue.add(later)

    def may_start(self) -> bool:
        """Whether any node has room for any job that waits. Otherwise a cycle would start nothing, and is left out."""
        if not self.queue:
            return False
        most = self._holdings.free[:, :-1].max(axis=0, initial=0).tolist()
        sizes = dict(zip(self._nodes.types, most, strict=True))
        too_large = self._live.problem.kinds.asking_more(sizes, has_empty_node=True)
        return not bool(too_large[self.queue.kinds()].all())

    def decide(self, now: float) -> tuple[Placement, ...]:
        """One cycle, and its placements."""
        self._reserved_s = math.inf
        if not self.may_start():
            return ()
        outcome = self._cycle(now, explain=False)
        self._reserved_s = min((one.starts_at for one in outcome.reservations if one.starts_at > now), default=math.inf)
        if outcome.placements:
            self._start(outcome.placements, now)
        return outcome.placements

    def reasons(self, now: float) -> Iterator[tuple[int, str, str]]:
        """Job, reason and fact of all jobs that still wait, from a cycle that explains them."""
        outcome = self._cycle(now, explain=True) if self.queue else None
        if outcome is None:
            return
        own = {(one.queue, one.kind): one for one in outcome.own}
        common = {one.kind: one for one in outcome.common}
        for leaf, waiting in self.queue.waiting.items():
            for job, kind in zip(waiting.jobs.tolist(), waiting.kinds.tolist(), strict=True):
                reason = own.get((leaf, kind)) or common.get(kind)
                if reason is not None:
                    yield job, reason.reason, reason.fact

    def _cycle(self, now: float, *, explain: bool) -> CycleOutcome:
        problem = msgspec.structs.replace(
            self._live.problem,
            now=now,
            waiting=self.queue.waiting,
            used=self._used,
            pending=None,
            nodes=self._nodes,
            holds=self._holdings.held(),
            tenants=[one.tenant for one in self._runs.values()] if self._needs_tenants else (),
            array_rooms=self._rooms,
            explain=explain,
        )
        return run_cycle(problem, self._live.node_sort, self._memory)

    def _start(self, placements: Sequence[Placement], now: float) -> None:
        kinds, owners, parts, limits_s = self.queue.kinds_of(placements), [], [], []
        for placement, (leaf, number) in zip(placements, kinds, strict=True):
            kind = self._live.problem.kinds[number]
            own = given(self._nodes, kind.shape, placement)
            limit_s = limit_of(kind.time_limit_s)
            tenant = Tenant(
                queue=leaf, amount=own.amount, user=kind.user, groups=kind.groups, application=kind.application
            )
            owners.append(self._begin(placement.job, own, tenant, now + self._run_s(placement.job, limit_s)))
            parts.append(own)
            limits_s.append(limit_s)
        self._holdings.start(owners, parts, limits_s, now)
        self.queue.remove(placements)

    def _begin(self, job: int, own: Given, tenant: Tenant, ends_at: float) -> int:
        owner = self._n_owners
        self._n_owners += 1
        self._runs[owner] = _Runs(job, self._live.problem.array_of.get(job, job), tenant, own.devices)
        self._charge(self._runs[owner], 1)
        heapq.heappush(self._ends, (ends_at, owner))
        return owner

    def _charge(self, runs: _Runs, sign: int) -> None:
        """Add what a job uses to all queues on its path and to its array, or take it away."""
        amount = {kind: sign * value for kind, value in runs.tenant.amount.items()}
        for queue in self._paths.get(runs.tenant.queue, ()):
            add_amounts(self._used.setdefault(queue, {}), amount)
        if runs.array in self._rooms:
            self._rooms[runs.array] -= sign


def _of_open(work: OpenWork) -> _Runs:
    return _Runs(work.job, work.array if work.array != NO_JOB else work.job, work.tenant, work.devices)


def _paths(problem: PartitionProblem) -> Mapping[int, list[int]]:
    """For each queue, itself and the queues above it."""
    paths: dict[int, list[int]] = {}
    for view in problem.queues:  # parents first
        paths[view.id] = [view.id, *(() if view.parent is None else paths[view.parent])]
    return paths


def parts_of(live: LivePartition) -> Counter[int]:
    """How many parts each job and array has that have not ended: tasks that run, tasks that wait, or the job itself."""
    parts: Counter[int] = Counter()
    array_of = live.problem.array_of
    for work in live.running:
        parts[work.job] += 1
        if work.array != NO_JOB:
            parts[work.array] += 1
    for own in live.problem.waiting.values():
        tasks = [1] * len(own.jobs) if own.tasks is None else own.tasks.tolist()
        for job, number in zip(own.jobs.tolist(), tasks, strict=True):
            parts[job] += number
            if job in array_of:
                parts[array_of[job]] += number
    for later in live.later:
        parts[later.job] += later.tasks
        if later.job in array_of:
            parts[array_of[later.job]] += later.tasks
    return parts

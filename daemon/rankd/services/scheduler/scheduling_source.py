"""The scheduler's memory: it follows the records, and provides the problems that cycles decide on.

Each reading keeps what is known and adds what changed. Everything can also be read from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rankd.config.configuration import Configuration
from rankd.core.model.setting import Qos, SchedulingSettings
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import PartitionProblem, WaitingJobs, no_applications
from rankd.core.ranking.order import Applications
from rankd.mirror.application_table import ApplicationTable
from rankd.mirror.leaf_orders import LeafOrders
from rankd.mirror.occupancy import Occupancy, Opened
from rankd.mirror.pending_table import PendingTable
from rankd.mirror.staged_order import StagedOrder
from rankd.mirror.unranked import NO_UNRANKED, Unranked
from rankd.mirror.waiting_leaves import WaitingLeaves
from rankd.services.runtime.staleness import Staleness
from rankd.services.scheduler.placed_jobs import JobCost, PlacedJobs
from rankd.services.scheduler.scheduled_queues import ScheduledQueues
from rankd.store.engine.connection import Connection
from rankd.store.feed.application import begun_applications
from rankd.store.feed.job_end import happened_since, with_other_limits
from rankd.store.feed.newest import Newest, newest
from rankd.store.feed.occupancy import open_since, read_open
from rankd.store.feed.order import new_jobs_since, newest_generation, read_delta, read_leaves, staged_generation
from rankd.store.feed.pending_kind import (
    all_arrays,
    all_pending,
    all_tasks,
    changed_arrays,
    changed_jobs,
    changed_tasks,
    indices_in,
)
from rankd.store.feed.shape import read_shape
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.catalog import Catalog

ENDED = "ended"
LIMITED = "limited"
SUBMITTED = "submitted"
NODES = "nodes"
RESERVED = "reserved"
STARTED_UP = "started up"
CONFIGURED = "configured"
STALE = "stale"


class SchedulingSource:
    """Call :meth:`load` once, then :meth:`refresh`. :attr:`triggers` has the reasons for the next cycle, if it is due.

    ``order`` and ``pending`` are the newest generation and the pending jobs, as last read.
    """

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        scheduling = configuration.settings.scheduling
        self.order = LeafOrders()
        self.triggers: set[str] = {STARTED_UP}
        self.staleness = Staleness(scheduling.stale_after_s)
        self._configuration = configuration
        self._queues = ScheduledQueues(configuration, catalog)
        self.pending = PendingTable(self._queues.rules(scheduling.default_time_limit_s))
        self._usage_factors: dict[int, float] = {}
        self.use_qos(configuration.settings.qos, catalog.qos)
        self._revision = -1
        self._node_event = -1
        self._nodes: dict[str, NodeSet] = {}
        self._occupancy = Occupancy(scheduling.default_time_limit_s)
        self._application_table = ApplicationTable()
        self._applications: Applications = no_applications()
        self._waiting = WaitingLeaves(self.order, self.pending)
        self._memories: dict[int, CycleMemory] = {}
        self._staged = StagedOrder()
        self._replaced: list[object] = []
        """Objects that a staged generation has replaced. They are freed between cycles, as that takes milliseconds."""

    def configure(self, configuration: Configuration) -> bool:
        """Use another configuration, between two cycles; returns False if this memory cannot be used with it."""
        before, self._configuration = self._configuration, configuration
        self.staleness.after_s = configuration.settings.scheduling.stale_after_s
        self.triggers.add(CONFIGURED)
        return before.partitions == configuration.partitions and _is_same(
            before.settings.scheduling, configuration.settings.scheduling
        )

    def use_qos(self, all_qos: Iterable[Qos], ids: Mapping[str, int]) -> None:
        """Set the charge of usage under each QoS, from the next allocation on."""
        self._usage_factors = {ids[qos.name]: qos.usage_factor for qos in all_qos}

    @property
    def is_loaded(self) -> bool:
        """Whether pending jobs have been read."""
        return self._revision >= 0

    @property
    def revision(self) -> int:
        """The last job event that this memory knows; -1 before :meth:`load`."""
        return self._revision

    # --- following the records ----------------------------------------------------------------------------------

    def load(self, connection: Connection) -> None:
        """Read all pending jobs."""
        last = newest(connection)
        self._refresh_queues(connection, last.catalog)
        batches = all_pending(connection, with_users=self._with_users)
        self.pending.load(batches, lambda job: read_shape(connection, job))
        self.pending.arrays = {array.id: array for array in all_arrays(connection)}
        self.pending.tasks = {task.id: task for task in all_tasks(connection)}
        self.pending.read_indices(lambda arrays: indices_in(connection, arrays))
        self._revision = last.job_event

    def stand_by(self, connection: Connection, now: float) -> None:
        """Read all pending jobs, or what has changed, for a standby. The first cycle is due when it takes over."""
        if not self.is_loaded:
            self.load(connection)
        self.refresh(connection, now)

    def refresh(self, connection: Connection, now: float) -> None:
        """Read what changed. Adds triggers if that requires a cycle."""
        last = newest(connection)
        self._refresh_queues(connection, last.catalog)
        self._read_events(connection, last)
        self._read_order(connection)
        if self.staleness.look(self.order.generation, now):
            self.triggers.add(STALE)
        if self.triggers:
            wanted = self._occupancy.follow(open_since(connection), self._nodes)
            self._occupancy.add(read_open(connection, wanted))
            self._application_table.update(begun_applications(connection, self._application_table.read_after))
            self._applications = self._application_table.with_use(self._occupancy.by_application, {})

    def _refresh_queues(self, connection: Connection, version: int) -> None:
        if self._queues.refresh(connection, version):
            default_s = self._configuration.settings.scheduling.default_time_limit_s
            self.pending.known_kinds.rules = self._queues.rules(default_s)

    @property
    def _with_users(self) -> bool:
        """Whether any queue's limits depend on user names."""
        return bool(self.pending.known_kinds.rules.by_user)

    def _read_events(self, connection: Connection, last: Newest) -> None:
        if last.job_event > self._revision:
            if self._read_jobs(connection) and self.staleness.is_stale:
                self.triggers.add(SUBMITTED)
            happened = happened_since(connection, self._revision)
            if happened.has_freed_room:
                self.triggers.add(ENDED)
            if happened.changes_limits and (limited := with_other_limits(connection, self._revision)):
                self._occupancy.forget(limited)
                self.triggers.add(LIMITED)
            self._revision = last.job_event
        if last.node_event != self._node_event:
            self._node_event = last.node_event
            self._read_nodes(connection)
            self.triggers.add(NODES)

    def _read_jobs(self, connection: Connection) -> bool:
        """Read jobs that changed; returns whether any of them is eligible."""
        is_any_eligible = False
        of_arrays = False
        for changes in changed_jobs(connection, self._revision, with_users=self._with_users):
            if changes.pending is not None:
                self.pending.put(changes.pending, lambda job: read_shape(connection, job))
                is_any_eligible |= bool(changes.pending.is_eligible.any())
            self.pending.drop(changes.gone)
            of_arrays |= changes.of_arrays
        if of_arrays:
            self._read_arrays(connection)
        return is_any_eligible

    def _read_arrays(self, connection: Connection) -> None:
        """Read arrays and tasks that changed."""
        arrays, tasks = changed_arrays(connection, self._revision), changed_tasks(connection, self._revision)
        known = self.pending.arrays
        if any(array.id in known and array.tasks > known[array.id].tasks for array in arrays):
            self.triggers.add(SUBMITTED)
        known.update((array.id, array) for array in arrays)
        self.pending.tasks.update((task.id, task) for task in tasks)
        self.pending.read_indices(lambda arrays: indices_in(connection, arrays))

    def _read_nodes(self, connection: Connection) -> None:
        """Read all nodes. A type that no node offers and no queue limits matters only as a reason for waiting."""
        nodes = all_nodes(connection.connection)
        self._nodes = {
            partition.name: NodeSet([node for node in nodes if node.partition == partition.name])
            for partition in self._queues.partitions
        }
        offered = {kind for own in self._nodes.values() for kind in own.types}
        self.pending.know(offered | self._queues.limited_types())

    def _read_order(self, connection: Connection) -> None:
        """Read the newest generation. It is a trigger if there are new jobs since the last one."""
        newest = newest_generation(connection)
        if newest is not None and newest.number != self.order.generation:
            if new_jobs_since(connection, self.order.generation):
                self.triggers.add(SUBMITTED)
            if newest.base != self.order.base and self._staged.is_base_of(newest):
                self._use_staged(connection)
            if newest.base != self.order.base:
                self.order.begin(newest.base, read_leaves(connection, newest.base))
            self.order.follow(newest, read_delta(connection, newest.base, self.order.followed))
        self._staged.follow(staged_generation(connection, self.order.base))

    # --- loading a staged generation in advance -----------------------------------------------------------------

    def _use_staged(self, connection: Connection) -> None:
        """Use the loaded staged generation, which has just become visible."""
        while self._staged.has_more:
            self._load_staged(connection)
        if self._staged.waiting is not None:
            self._replaced += [self._waiting, self.order, self._memories]
            self.order, self._waiting, self._memories = self._staged.order, self._staged.waiting, self._staged.memories

    def _load_staged(self, connection: Connection) -> None:
        if not self._staged.begin(self._waiting):
            first, last = self._staged.next_range()
            self._staged.add(read_leaves(connection, self._staged.number, first, last))

    @property
    def has_staged_work(self) -> bool:
        """Whether :meth:`prepare_staged` has anything to do."""
        return self._staged.has_more or bool(self._replaced)

    def prepare_staged(self, connection: Connection, now: float) -> None:
        """Do one step of preparing the staged generation; it takes a few milliseconds."""
        if self._replaced:
            self._replaced.pop()
            return
        self._staged.follow(staged_generation(connection, self.order.base))
        if self._staged.has_more:
            self._load_staged(connection)
        if self._staged.has_any and self._staged.waiting is not None:
            waiting = self._staged.waiting.look(self._detailed(), is_stale=False, unranked=lambda: NO_UNRANKED)
            for problem in self._problems(self._staged.of_loaded(waiting), now):
                self._staged_memory(problem).update(problem)

    def _staged_memory(self, problem: PartitionProblem) -> CycleMemory:
        root, known = problem.queues[0].id, self._staged.memories
        if root not in known:
            known[root] = self.memory(problem).successor()
        return known[root]

    # --- what cycles decide on ----------------------------------------------------------------------------------

    def memory(self, problem: PartitionProblem) -> CycleMemory:
        """The memory that the partition's last cycle left."""
        return self._memories.setdefault(problem.queues[0].id, CycleMemory())

    def problems(self, now: float) -> list[PartitionProblem]:
        """The problems of the next cycle, one per partition.

        Jobs that changed after the generation wait for the next one. While that is overdue, they come after the ranked
        jobs.
        """
        waiting = self._waiting.look(self._detailed(), is_stale=self.staleness.is_stale, unranked=self._unranked)
        return self._problems(waiting, now)

    def _detailed(self) -> frozenset[int]:
        """The leaves in whose order more counts than priorities: usage, or times of submission."""
        if self._configuration.settings.scheduling.backfill_order == "shortest":
            return self._queues.all(self._nodes)
        return self._queues.by_usage(self._nodes)

    def _unranked(self) -> Unranked:
        """The jobs that come after the ranked ones while a generation is overdue."""
        running = [application for application, used in self._occupancy.by_application.items() if any(used.values())]
        return self._waiting.not_ranked(self._queues.filtering(), running)

    def _problems(self, waiting: Mapping[int, WaitingJobs], now: float) -> list[PartitionProblem]:
        scheduling = self._configuration.settings.scheduling
        rooms, problems = self._array_rooms(), []
        array_of = {task: turn.array for task, turn in self.pending.turns().items()}
        for partition in self._queues.partitions:
            queues = self._queues.of(partition, self._nodes)
            problems.append(
                PartitionProblem(
                    now=now,
                    queues=queues.views,
                    waiting=queues.own(waiting),
                    kinds=self.pending.known_kinds.table,
                    used=queues.used(self._occupancy.by_queue),
                    nodes=self._nodes[partition.name],
                    holds=self._occupancy.held(partition.name),
                    tenants=self._occupancy.tenants() if queues.needs_tenants else (),
                    applications=self._applications,
                    node_sort=partition.nodesort,
                    backfill=scheduling.backfill,
                    backfill_order=scheduling.backfill_order,
                    reserve_depth=scheduling.reserve_depth,
                    array_reserve=scheduling.array_reserve,
                    array_rooms=rooms,
                    array_of=array_of,
                    billing=self._configuration.settings.priority.fairshare.billing,
                )
            )
        return problems

    def opened(self) -> list[list[Opened]]:
        """The open allocations of each partition, in the order of :meth:`problems`."""
        return [self._occupancy.opened(partition.name) for partition in self._queues.partitions]

    def _array_rooms(self) -> dict[int, int]:
        """How many tasks of each array with a limit may start."""
        running = self._occupancy.by_array
        return {array: limit - running.get(array, 0) for array, limit in self.pending.array_limits().items()}

    def placed_jobs(self) -> PlacedJobs:
        """Computes what is recorded about the jobs that a cycle placed."""
        cost = JobCost(self._configuration.settings.priority.fairshare.billing, self._usage_factors, self._nodes)
        known = self._revision, self._node_event
        return PlacedJobs(self.pending, self.order, self._waiting.unranked, cost, known)


def _is_same(one: SchedulingSettings, other: SchedulingSettings) -> bool:
    """Whether the two differ at most in settings that this memory does not use."""
    unused = {"stale_after_s": other.stale_after_s, "cancel_if_unmet": other.cancel_if_unmet}
    return msgspec.structs.replace(one, **unused) == other

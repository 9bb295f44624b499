"""What the scheduler knows of the database: pending jobs, the newest order, nodes, what runs, and what woke it.

Everything is kept between looks and extended by what changed; all of it can be read again from the database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts
from rankd.core.fairshare.decay import billing_rate
from rankd.core.model.job import State
from rankd.core.model.node import Node, NodeState
from rankd.core.model.queue import Partition
from rankd.core.model.setting import Qos, SchedulingSettings
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.problem import PartitionProblem, WaitingJobs, no_applications
from rankd.core.placement.request import Shape
from rankd.core.ranking.application_order import filter_policy
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_view import QueueView, queue_views
from rankd.mirror.application_table import ApplicationTable
from rankd.mirror.leaf_orders import LeafOrders, newest_generation
from rankd.mirror.occupancy import Occupancy
from rankd.mirror.partition_queues import PartitionQueues
from rankd.mirror.pending_table import IS_ELIGIBLE, SHAPE, PendingTable, ReadShape, Row, Rules
from rankd.mirror.unranked import NOTHING, Unranked
from rankd.mirror.waiting_leaves import WaitingLeaves
from rankd.services.runtime.staleness import Staleness
from rankd.services.scheduler.ahead import Ahead
from rankd.store.engine.connection import Connection
from rankd.store.record.catalog import Catalog
from rankd.store.record.job import last_id
from rankd.store.record.made_queue import LiveQueues

ENDED = "ended"
SUBMITTED = "submitted"
NODES = "nodes"
RESERVED = "reserved"
STARTED_UP = "started up"
CONFIGURED = "configured"
STALE = "stale"

_BATCH = 20_000


class SchedulingSource:
    """The scheduler's memory."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self.order = LeafOrders()
        self.triggers: set[str] = {STARTED_UP}
        self._configuration = configuration
        self._queues = LiveQueues(configuration, catalog)
        self._sorts = load_application_sorts(configuration.partitions)
        self.pending = PendingTable(self._rules())
        self._usage_factors: dict[int, float] = {}
        self.take_qos(configuration.settings.qos, catalog.qos)
        self._revision = -1
        self._node_event = -1
        self._nodes: dict[str, NodeSet] = {}
        self._occupancy = Occupancy(configuration.settings.scheduling.default_time_limit_s)
        self._application_table = ApplicationTable()
        self._applications: Applications = no_applications()
        self._waiting = WaitingLeaves(self.order, self.pending)
        self._memories: dict[int, CycleMemory] = {}
        self._ahead = Ahead()
        self._used_up: list[object] = []
        """What another has taken the place of; to give it back takes milliseconds, for which no cycle waits."""
        self._known_queues: dict[str, PartitionQueues] = {}
        self.staleness = Staleness(configuration.settings.scheduling.stale_after_s)

    def configure(self, configuration: Configuration) -> bool:
        """Another configuration, between two cycles; False where this memory can't go on with it."""
        before, self._configuration = self._configuration, configuration
        self.staleness.after_s = configuration.settings.scheduling.stale_after_s
        self.triggers.add(CONFIGURED)
        return before.partitions == configuration.partitions and _is_same(
            before.settings.scheduling, configuration.settings.scheduling
        )

    def take_qos(self, all_qos: Iterable[Qos], ids: Mapping[str, int]) -> None:
        """What usage under each QoS costs, from the next allocation on."""
        self._usage_factors = {ids[qos.name]: qos.usage_factor for qos in all_qos}

    def _rules(self) -> Rules:
        """What tells kinds apart: leaves below queues with limits, and with ``maxapplications``."""
        by_user: set[int] = set()
        by_application: set[int] = set()
        for view in self._all_views():
            if view.limits or view.parent in by_user:
                by_user.add(view.id)
            if _counts_applications(view) or view.parent in by_application:
                by_application.add(view.id)
        default = self._configuration.settings.scheduling.default_time_limit_s
        return Rules(default, frozenset(by_user), frozenset(by_application))

    @property
    def is_loaded(self) -> bool:
        """Whether it has begun."""
        return self._revision >= 0

    @property
    def seen(self) -> int:
        """The last event of a job that it knows of."""
        return self._revision

    def load(self, connection: Connection) -> None:
        """Begin with all pending jobs, by the driver itself: rows of SQLAlchemy take three times as long."""
        if self._queues.refresh(connection):
            self.pending.rules = self._rules()
        raw = connection.connection.cursor()
        raw.execute(f"SELECT {self.pending.rules.columns} FROM jobs j WHERE j.state = 'pending' ORDER BY j.id")
        self.pending.load(iter(lambda: raw.fetchmany(_BATCH), []), _shape_reader(connection))
        self._revision = last_id(connection, "job_events")

    def refresh(self, connection: Connection, now: float) -> None:
        """Take in what changed; :attr:`triggers` says whether that calls for a cycle."""
        if self._queues.refresh(connection):
            self.pending.rules = self._rules()
        self._take_events(connection)
        self._take_order(connection)
        if self.staleness.look(self.order.generation, now):
            self.triggers.add(STALE)
        if self.triggers:
            self._occupancy.refresh(connection, self._nodes)
            self._applications = self._application_table.read(connection, self._occupancy.by_application, [])

    def _take_events(self, connection: Connection) -> None:
        newest = last_id(connection, "job_events")
        if newest > self._revision:
            if self._take_jobs(connection) and self.staleness.is_stale:
                self.triggers.add(SUBMITTED)
            if self._room_was_freed(connection):
                self.triggers.add(ENDED)
            self._revision = newest
        node_event = last_id(connection, "node_events")
        if node_event != self._node_event:
            self._node_event = node_event
            self._nodes = self._node_sets(connection)
            self._know_types()
            self.triggers.add(NODES)

    def _node_sets(self, connection: Connection) -> dict[str, NodeSet]:
        nodes = [
            Node(
                name=name,
                partition=partition,
                capacity=json.loads(capacity),
                labels=json.loads(labels),
                state=NodeState(state),
            )
            for name, partition, state, capacity, labels in connection.exec_driver_sql(
                "SELECT name, partition, state, capacity, labels FROM nodes ORDER BY name"
            )
        ]
        return {
            partition.name: NodeSet([node for node in nodes if node.partition == partition.name])
            for partition in self._queues.partitions
        }

    def _know_types(self) -> None:
        """Types that no node offers and no queue limits decide nothing but that their jobs can't start."""
        of_nodes = {kind for nodes in self._nodes.values() for kind in nodes.types}
        of_queues = {kind for view in self._all_views() for kind in view.maximum}
        self.pending.know(of_nodes | of_queues)

    def _room_was_freed(self, connection: Connection) -> bool:
        query = (
            "SELECT 1 FROM job_events WHERE id > ? AND event IN"
            " ('complete', 'fail', 'time_out', 'cancel', 'requeue', 'take_back', 'lose_node') LIMIT 1"
        )
        return connection.exec_driver_sql(query, (self._revision,)).first() is not None

    def _take_jobs(self, connection: Connection) -> bool:
        """Jobs that changed, in batches; whether any of them may run."""
        may_run, read_shape = False, _shape_reader(connection)
        query = f"SELECT {self.pending.rules.columns}, j.state FROM jobs j WHERE j.revision > ?"
        raw = connection.connection.cursor()  # the driver's, as for loading
        raw.execute(query, (self._revision,))
        while rows := raw.fetchmany(_BATCH):
            pending: list[Row] = [row[:-1] for row in rows if row[-1] == State.PENDING]
            self.pending.put(pending, read_shape)
            self.pending.drop([row[0] for row in rows if row[-1] != State.PENDING])
            may_run |= any(row[IS_ELIGIBLE] for row in pending)
        return may_run

    def _take_order(self, connection: Connection) -> None:
        """The newest generation; it is a trigger if any since the last one brought new jobs."""
        newest = newest_generation(connection)
        if newest is not None and newest.number != self.order.generation:
            if self.order.new_jobs(connection):
                self.triggers.add(SUBMITTED)
            if newest.base != self.order.base and self._ahead.is_of(newest):
                self._go_over(connection)
            self.order.read(connection, newest)
        self._ahead.look(connection, self.order.base)

    def _go_over(self, connection: Connection) -> None:
        """Use what was taken in beforehand."""
        while self._ahead.has_more:
            self._ahead.read(connection, self._waiting)
        if self._ahead.waiting is not None:
            self._used_up += [self._waiting, self.order, self._memories]
            self.order, self._waiting, self._memories = self._ahead.order, self._ahead.waiting, self._ahead.memories

    @property
    def has_more_ahead(self) -> bool:
        """Whether there is something to be taken in of a generation that is not visible yet."""
        return self._ahead.has_more or bool(self._used_up)

    def take_ahead(self, connection: Connection, now: float) -> None:
        """A part of it, which takes some milliseconds."""
        if self._used_up:
            self._used_up.pop()
            return
        self._ahead.look(connection, self.order.base)
        if self._ahead.has_more:
            self._ahead.read(connection, self._waiting)
        if self._ahead.has_any and self._ahead.waiting is not None:
            waiting = self._ahead.waiting.look(self._by_usage(), is_stale=False, unranked=lambda: NOTHING)
            for problem in self._problems(self._ahead.so_far(waiting), now):
                self._memory_ahead(problem).update(problem)

    def _memory_ahead(self, problem: PartitionProblem) -> CycleMemory:
        root, known = problem.queues[0].id, self._ahead.memories
        if root not in known:
            known[root] = self.memory(problem).successor()
        return known[root]

    def memory(self, problem: PartitionProblem) -> CycleMemory:
        """What the partition's last cycle has left."""
        return self._memories.setdefault(problem.queues[0].id, CycleMemory())

    def problems(self, now: float) -> list[PartitionProblem]:
        """What a cycle decides on, per partition. Jobs that changed after the generation wait for the next one.

        While that one is overdue, they are behind it.
        """
        return self._problems(self._waiting_jobs(), now)

    def _problems(self, waiting: Mapping[int, WaitingJobs], now: float) -> list[PartitionProblem]:
        scheduling = self._configuration.settings.scheduling
        problems = []
        for partition in self._queues.partitions:
            queues = self._queues_of(partition)
            problems.append(
                PartitionProblem(
                    now=now,
                    queues=queues.views,
                    waiting=queues.own(waiting),
                    kinds=self.pending.kind_table,
                    used=queues.used(self._occupancy.by_queue),
                    nodes=self._nodes[partition.name],
                    holds=self._occupancy.held(partition.name),
                    tenants=self._occupancy.tenants() if queues.needs_tenants else (),
                    applications=self._applications,
                    node_sort=partition.nodesort,
                    backfill=scheduling.backfill,
                    reserve_depth=scheduling.reserve_depth,
                )
            )
        return problems

    def _queues_of(self, partition: Partition) -> PartitionQueues:
        """The same as long as the queues and the sum of the nodes are the same."""
        total, known = self._nodes[partition.name].totals, self._known_queues.get(partition.name)
        if known is None or not known.is_of(partition, total):
            views = queue_views(partition, self._queues.ids, total, self._sorts)
            known = self._known_queues[partition.name] = PartitionQueues(partition, total, views)
        return known

    def _all_views(self) -> Iterator[QueueView]:
        """Of all partitions, parents before children."""
        for partition in self._queues.partitions:
            yield from queue_views(partition, self._queues.ids, {}, self._sorts)

    def _waiting_jobs(self) -> Mapping[int, WaitingJobs]:
        """By leaf; only those are new where the order or the jobs have changed."""
        return self._waiting.look(self._by_usage(), is_stale=self.staleness.is_stale, unranked=self._not_ranked)

    def _by_usage(self) -> frozenset[int]:
        """Leaves whose applications go by what they use."""
        return frozenset[int]().union(*(self._queues_of(own).by_usage for own in self._queues.partitions))

    def _not_ranked(self) -> Unranked:
        """What goes behind an overdue generation."""
        filtering = [view.id for view in self._all_views() if filter_policy(view) is not None]
        running = [application for application, used in self._occupancy.by_application.items() if any(used.values())]
        return self._waiting.not_ranked(filtering, running)

    def row(self, job: int) -> int:
        """A pending job's row."""
        return int(self.pending.lookup(np.array([job]))[0])

    def ranks(self, jobs: Sequence[int]) -> Mapping[int, int]:
        """The ranks of jobs in the order, or behind it."""
        rows = {job: self.row(job) for job in jobs}
        unranked = self._waiting.unranked.rows
        behind = dict(zip(unranked.tolist(), range(1, len(unranked) + 1), strict=True))
        ranks = self.order.ranks({job: int(self.pending.queues[row]) for job, row in rows.items() if row not in behind})
        n_ranked = sum(len(self.order.leaf(queue).ids) for queue in self.order.queues()) if behind else 0
        return ranks | {job: n_ranked + behind[row] for job, row in rows.items() if row in behind}

    def revision(self, job: int) -> int:
        """The last event of a pending job that this knows of."""
        return int(self.pending.revisions[self.row(job)])

    def shape(self, job: int) -> Shape:
        """What a pending job asks for."""
        return self.pending.kind_table[int(self.pending.kinds[self.row(job)])].shape

    def charge_rate(self, job: int, nodes: Sequence[str]) -> float:
        """Billing units per second that the job costs on these nodes; an exclusive one costs them whole."""
        billing, shape = self._configuration.settings.priority.fairshare.billing, self.shape(job)
        usage_factor = self._usage_factors.get(int(self.pending.qos[self.row(job)]), 1.0)
        if not shape.exclusive:
            return billing_rate(shape.resources, len(nodes), billing, usage_factor)
        own = self._nodes[shape.partition]
        return sum(billing_rate(own.nodes[own.rows[name]].capacity, 1, billing, usage_factor) for name in nodes)


def _shape_reader(connection: Connection) -> ReadShape:
    return lambda job: connection.exec_driver_sql(SHAPE, (job,)).one()


def _is_same(one: SchedulingSettings, other: SchedulingSettings) -> bool:
    """But for what is only about generations that stay away."""
    return msgspec.structs.replace(one, stale_after_s=other.stale_after_s) == other


def _counts_applications(view: QueueView) -> bool:
    return bool(view.maxapplications) or any(limit.maxapplications for limit in view.limits)

"""What the scheduler knows of the database: pending jobs' shapes, the newest order, nodes, and what woke it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection

from rankd.config.configuration import Configuration
from rankd.core.fairshare.decay import billing_rate
from rankd.core.model.job import State
from rankd.core.model.node import Node
from rankd.core.model.quantity import Resources
from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.node_set import totals
from rankd.core.placement.problem import PartitionProblem, WaitingJobs
from rankd.core.placement.request import Kind, Shape
from rankd.core.ranking.queue_forest import queue_views, roll_up
from rankd.services.leaf_orders import LeafOrders
from rankd.store.catalog import Catalog
from rankd.store.job import last_id
from rankd.store.made_queue import LiveQueues
from rankd.store.node import read_nodes

_JOBS = """
SELECT j.id, j.revision, j.state, j.queue_id, j.qos_id, j.nodes, j.min_nodes, j.resources, j.constraints,
    j.exclusive, j.shape, q.partition
FROM jobs j JOIN queues q ON q.id = j.queue_id WHERE {}"""

ENDED = "ended"
SUBMITTED = "submitted"
NODES = "nodes"
STARTED_UP = "started up"


class Waiting(msgspec.Struct, frozen=True):
    """A pending job as the scheduler keeps it."""

    revision: int
    queue: int
    qos: int
    partition: str
    shape: Shape


class SchedulingSource:
    """The scheduler's memory; everything in it can be read again from the database."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self.order = LeafOrders()
        self.jobs: dict[int, Waiting] = {}
        self.triggers: set[str] = {STARTED_UP}
        self._configuration = configuration
        self._queues = LiveQueues(configuration, catalog)
        self._usage_factors = {catalog.qos[qos.name]: qos.usage_factor for qos in configuration.settings.qos}
        self._shapes: dict[int, Shape] = {}
        self._kinds = KindTable()
        self._kind_places: dict[int, int] = {}
        self._revision = -1
        self._node_event = -1
        self._nodes: list[Node] = []
        self._used: Mapping[int, Resources] = {}

    def refresh(self, connection: Connection) -> None:
        """Take in what changed; :attr:`triggers` says whether that calls for a cycle."""
        self._queues.refresh(connection)
        self._take_events(connection)
        self._take_order(connection)
        if self.triggers:
            self._nodes, use = read_nodes(connection)
            self._used = use.by_queue

    def _take_events(self, connection: Connection) -> None:
        newest = last_id(connection, "job_events")
        if newest > self._revision:
            first = self._revision < 0
            where = "j.state = 'pending'" if first else "j.revision > ?"
            rows = connection.exec_driver_sql(_JOBS.format(where), () if first else (self._revision,)).all()
            self._take_jobs(rows)
            if not first and self._room_was_freed(connection):
                self.triggers.add(ENDED)
            self._revision = newest
        node_event = last_id(connection, "node_events")
        if node_event != self._node_event:
            self._node_event = node_event
            self.triggers.add(NODES)

    def _room_was_freed(self, connection: Connection) -> bool:
        query = (
            "SELECT 1 FROM job_events WHERE id > ? AND event IN"
            " ('complete', 'fail', 'time_out', 'cancel', 'requeue', 'lose_node') LIMIT 1"
        )
        return connection.exec_driver_sql(query, (self._revision,)).first() is not None

    def _take_jobs(self, rows: Any) -> None:  # noqa: ANN401 - database rows
        for (
            id_,
            revision,
            state,
            queue,
            qos,
            nodes,
            least,
            resources,
            constraints,
            exclusive,
            key,
            part,
        ) in rows:
            if state != State.PENDING:
                self.jobs.pop(id_, None)
                continue
            shape = self._shapes.get(key)
            if shape is None:
                shape = self._shapes[key] = Shape(
                    partition=part,
                    nodes=nodes,
                    min_nodes=least,
                    resources=json.loads(resources),
                    constraints=constraints,
                    exclusive=bool(exclusive),
                )
            self.jobs[id_] = Waiting(revision, queue, qos, part, shape)

    def _take_order(self, connection: Connection) -> None:
        """The newest generation, of a delta what has changed; a trigger if any since the last one brought new jobs."""
        if self.order.read(connection):
            self.triggers.add(SUBMITTED)

    def problems(self) -> list[PartitionProblem]:
        """What a cycle decides on, per partition. Jobs that changed after the generation wait for the next one."""
        ranked = self._ranked()
        problems = []
        for partition in self._queues.partitions:
            nodes = [node for node in self._nodes if node.partition == partition.name]
            queues = queue_views(partition, self._queues.ids, totals(nodes))
            problems.append(
                PartitionProblem(
                    queues=queues,
                    waiting={view.id: ranked[view.id] for view in queues if view.id in ranked},
                    kinds=self._kinds,
                    used=roll_up(self._used, queues),
                    nodes=nodes,
                    node_sort=partition.nodesort,
                )
            )
        return problems

    def _ranked(self) -> dict[int, WaitingJobs]:
        ranked: dict[int, list[tuple[int, int, int]]] = {}
        for queue in self.order.queues():
            for job, priority in zip(*map(np.ndarray.tolist, self.order.leaf(queue)), strict=True):
                waiting = self.jobs.get(job)
                if waiting is not None and waiting.revision <= self.order.revision:
                    ranked.setdefault(queue, []).append((job, priority, self._kind(waiting.shape)))
        return {
            queue: WaitingJobs(jobs=rows[:, 0], priorities=rows[:, 1], kinds=rows[:, 2])
            for queue, listed in ranked.items()
            for rows in [np.array(listed, dtype=np.int64)]
        }

    def _kind(self, shape: Shape) -> int:
        if id(shape) not in self._kind_places:
            self._kind_places[id(shape)] = self._kinds.add(Kind(shape=shape))
        return self._kind_places[id(shape)]

    def shape_key(self, kind: int) -> int:
        """The shape of a kind, as the records have it."""
        return self._kinds[kind].shape.key()

    def charge_rate(self, job: int, n_nodes: int) -> float:
        """Billing units per second that the job costs on so many nodes."""
        waiting = self.jobs[job]
        billing = self._configuration.settings.priority.fairshare.billing
        return billing_rate(waiting.shape.resources, n_nodes, billing, self._usage_factors.get(waiting.qos, 1.0))

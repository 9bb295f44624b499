"""What the prioritizer knows of the database: pending jobs as columns, extended by what changed.

``refresh`` runs inside one read transaction and leaves a `RankingState` that the pure pass takes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection

from rankd.config.configuration import Configuration
from rankd.core.admission.dependency import Blocked
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import ROOT, Association
from rankd.core.model.job import Dependency, Event, State
from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.model.queue import walk_queues
from rankd.core.ranking.columns import NO_GROUP, IntArray, JobColumns
from rankd.core.ranking.queue_forest import queue_views
from rankd.core.ranking.ranking import RankingState, Usage
from rankd.services.application_table import ApplicationTable
from rankd.store.catalog import Catalog
from rankd.store.job import last_id
from rankd.store.made_queue import LiveQueues
from rankd.store.node import read_nodes

_JOBS = """
SELECT id, association_id, queue_id, qos_id, application_id, class_value, urgency, nodes, vcore, shape,
    time_limit_s, submitted_at, eligible_at, fixed_priority, state, resources, held, blocked_by, begin_at, depends_on,
    revision
FROM jobs WHERE {}"""
_INITIAL = "state = 'pending'"
_CHANGED = "revision > ?"

_CHARGES = """
SELECT l.id, j.association_id, l.charge_rate, l.allocated_at, l.ended_at
FROM allocations l JOIN jobs j ON j.id = l.job_id WHERE l.charged = 0"""

_DEPENDENCIES = msgspec.json.Decoder(list[Dependency])


class Ledger(NamedTuple):
    """Usage with the ids of its associations, and of the allocations whose charges are not in it yet."""

    usage: Usage
    association_ids: IntArray
    charges: IntArray


class RankingSource:
    """The prioritizer's memory; everything in it can be read again from the database."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self.configuration = configuration
        self.revision = 0
        self.new_jobs = 0
        self.blocked: dict[int, Blocked] = {}
        self.association_ids: IntArray = np.empty(0, dtype=np.int64)
        self.tree_ids: IntArray = np.empty(0, dtype=np.int64)
        self.ledgers: tuple[Ledger, ...] = ()
        """The usage of the tree's associations; and of those that are not in it, as the rule ``zero`` has it."""
        self.state: RankingState | None = None
        self._catalog = catalog
        self._queues = LiveQueues(configuration, catalog)
        self._jobs = JobColumns.from_rows([])
        self._applications = ApplicationTable()
        self._loaded = False
        self._node_event = 0
        self._shapes: dict[int, int] = {}
        self._amounts: list[Resources] = []
        self._tree: AccountTree | None = None
        self._usage: dict[int, tuple[float, float]] = {}
        self._outside_ids: IntArray = np.empty(0, dtype=np.int64)
        self._outside: frozenset[int] = frozenset()
        self._associations_known = (0, 0)
        self._partition_of = self._places()

    def refresh(self, connection: Connection) -> RankingState:
        """Take in what has changed since the last time."""
        if self._queues.refresh(connection):
            self._partition_of = self._places()
        self._take_associations(connection)
        self._take_jobs(connection)
        self._node_event = last_id(connection, "node_events")
        nodes, use = read_nodes(connection)
        partitions = self._queues.partitions
        totals = [self._total(nodes, p.name) for p in partitions]
        self.state = RankingState(
            jobs=self._jobs,
            tree=self._known_tree,
            association_ids=self.association_ids,
            usage=self._take_usage(connection),
            **self._qos_arrays(),
            queues=[
                queue_views(partition, self._queues.ids, total)
                for partition, total in zip(partitions, totals, strict=True)
            ],
            used=use.by_queue,
            shapes=self._amounts,
            totals=totals,
            partition_nodes=np.array([self._count(nodes, p.name) for p in partitions]),
            partition_cores=np.array([total.get(VCORE, 0) / 1000.0 for total in totals]),
            applications=self._applications.read(connection, use.by_application, self._filtering()),
        )
        return self.state

    def _places(self) -> dict[int, int]:
        """The place of every queue's partition."""
        partitions = {p.name: place for place, p in enumerate(self.configuration.partitions)}
        return {id_: partitions.get(name, 0) for (name, _), id_ in self._queues.ids.items()}

    def _filtering(self) -> list[int]:
        """The leaves that let in one new application at a time."""
        return [
            self._queues.ids[partition.name, queue.path.lower()]
            for partition in self._queues.partitions
            for queue in walk_queues(partition.root)
            if queue.properties.sort_policy == "stateaware"
        ]

    def is_behind(self, connection: Connection) -> bool:
        """Whether there is something that a pass would show; the start of a job is only if others wait for it."""
        if last_id(connection, "node_events") != self._node_event:
            return True
        ignored = "" if self.blocked else f" AND event <> '{Event.START}'"
        query = f"SELECT 1 FROM job_events WHERE id > ?{ignored} LIMIT 1"
        return connection.exec_driver_sql(query, (self.revision,)).first() is not None

    @property
    def _known_tree(self) -> AccountTree:
        assert self._tree is not None  # noqa: S101 - _take_associations comes first
        return self._tree

    def _take_jobs(self, connection: Connection) -> None:
        newest = last_id(connection, "job_events")
        where = _CHANGED if self._loaded else _INITIAL
        rows = connection.exec_driver_sql(_JOBS.format(where), (self.revision,) if self._loaded else ()).all()
        pending = [self._row(row) for row in rows if row[14] == State.PENDING]
        ranked = self.revision if self._loaded else _ranked_revision(connection)
        self.new_jobs += sum(1 for row in rows if row[14] == State.PENDING and row[12] is not None and row[20] > ranked)
        gone = np.array([row[0] for row in rows if row[14] != State.PENDING], dtype=np.int64)
        self._jobs = self._jobs.merge(gone, pending) if rows else self._jobs
        self._take_blocked(rows)
        self.revision, self._loaded = newest, True

    def _row(self, row: Any) -> tuple[float | int | None, ...]:  # noqa: ANN401 - a database row
        (id_, association, queue, qos, application, class_value, urgency, nodes, vcore, shape, limit, submitted,
         eligible, fixed, _, resources, *_rest) = row  # fmt: skip
        place = self._shapes.get(shape)
        if place is None:
            place = self._shapes[shape] = len(self._amounts)
            self._amounts.append({kind: amount * nodes for kind, amount in json.loads(resources).items()})
        group = NO_GROUP if application is None else application
        partition = self._partition_of.get(queue, 0)
        association = NO_GROUP if association in self._outside else association
        return (id_, association, queue, qos, partition, group, class_value, urgency, nodes, vcore, place, limit,
                submitted, eligible, fixed)  # fmt: skip

    def _take_blocked(self, rows: Any) -> None:  # noqa: ANN401 - database rows
        for row in rows:
            id_, state, (held, blocked_by, begin_at, depends_on) = row[0], row[14], row[16:20]
            if state != State.PENDING or blocked_by is None:
                self.blocked.pop(id_, None)
                continue
            dependencies = tuple(_DEPENDENCIES.decode(depends_on)) if depends_on else ()
            self.blocked[id_] = Blocked(job=id_, held=bool(held), begin_at=begin_at, depends_on=dependencies)

    def _take_associations(self, connection: Connection) -> None:
        """Build the tree again when there is a new association."""
        known = connection.exec_driver_sql("SELECT count(*), coalesce(max(id), 0) FROM associations").one()
        if tuple(known) == self._associations_known:
            return
        rows = connection.exec_driver_sql(
            'SELECT id, account, "user", parent, shares, shares_parent, is_default, usage, usage_at, priority,'
            " configured FROM associations ORDER BY id"
        ).all()
        self._usage = {row[0]: (row[7], row[8]) for row in rows}
        self._associations_known = (known[0], known[1])
        if self.configuration.settings.admission.unknown_association == "zero":
            self._outside = frozenset(row[0] for row in rows if row[2] and not row[10])
            self._outside_ids = np.array(sorted(self._outside), dtype=np.int64)
            rows = [row for row in rows if row[0] not in self._outside]
        listed = [_association(row) for row in rows]
        self._tree = AccountTree.build(listed)
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        places = self._tree.rows
        self.tree_ids = np.where(places >= 0, ids[np.maximum(places, 0)], -1)
        self.association_ids = self.tree_ids[self._tree.n_accounts :]

    def _take_usage(self, connection: Connection) -> Usage:
        charges = connection.exec_driver_sql(_CHARGES).all()
        inside = [row for row in charges if row[1] not in self._outside]
        outside = [row for row in charges if row[1] in self._outside]
        self.ledgers = (self._ledger(self.association_ids, inside), self._ledger(self._outside_ids, outside))
        return self.ledgers[0].usage

    def _ledger(self, ids: IntArray, charges: Sequence[Any]) -> Ledger:
        place = {id_: at for at, id_ in enumerate(ids.tolist())}
        amounts = [self._usage[id_] for id_ in ids.tolist()]
        usage = Usage(
            amounts=np.array([amount for amount, _ in amounts], dtype=np.float64),
            at=np.array([at for _, at in amounts], dtype=np.float64),
            users=np.array([place[row[1]] for row in charges], dtype=np.int64),
            rates=np.array([row[2] for row in charges], dtype=np.float64),
            since=np.array([row[3] for row in charges], dtype=np.float64),
            until=np.array([math.inf if row[4] is None else row[4] for row in charges], dtype=np.float64),
        )
        return Ledger(usage, ids, np.array([row[0] for row in charges], dtype=np.int64))

    def settle(self, usage: list[tuple[float, float, int]]) -> None:
        """The accumulators as they were just committed: (usage, at, association id)."""
        for amount, at, association in usage:
            self._usage[association] = (amount, at)

    def _qos_arrays(self) -> dict[str, np.ndarray]:
        size = max(self._catalog.qos.values(), default=-1) + 1
        priorities, factors = np.zeros(size), np.full(size, np.nan)
        for qos in self.configuration.settings.qos:
            id_ = self._catalog.qos[qos.name]
            priorities[id_] = qos.priority
            factors[id_] = math.nan if qos.factor is None else qos.factor
        return {"qos_priorities": priorities, "qos_factors": factors}

    @staticmethod
    def _total(nodes: list[Node], partition: str) -> Resources:
        total: Resources = {}
        for node in _counted(nodes, partition):
            for kind, amount in node.capacity.items():
                total[kind] = total.get(kind, 0) + amount
        return total

    @staticmethod
    def _count(nodes: list[Node], partition: str) -> float:
        return float(len(_counted(nodes, partition)))


def _ranked_revision(connection: Connection) -> int:
    """The last event that the newest generation knows."""
    query = "SELECT revision FROM generations ORDER BY number DESC LIMIT 1"
    return int(connection.exec_driver_sql(query).scalar_one_or_none() or 0)


def _counted(nodes: list[Node], partition: str) -> list[Node]:
    states = (NodeState.UP, NodeState.DRAINING)
    return [node for node in nodes if node.partition == partition and node.state in states]


def _association(row: Any) -> Association:  # noqa: ANN401 - a database row
    _, account, user, parent, shares, shares_parent, is_default, _, _, priority, _ = row
    return Association(
        account=account,
        user=user or None,
        parent=None if user or account == ROOT else parent or ROOT,
        shares="parent" if shares_parent else shares,
        default=bool(is_default),
        priority=priority,
    )

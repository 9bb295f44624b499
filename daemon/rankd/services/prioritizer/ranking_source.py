"""What the prioritizer knows of the database: pending jobs as columns, extended by what changed.

``refresh`` runs inside one read transaction and leaves a `RankingState` that the pure pass takes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import ROOT, Association
from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import VCORE, Resources
from rankd.core.model.queue import walk_queues
from rankd.core.ranking.columns import IntArray, JobColumns
from rankd.core.ranking.external_usage import External, external_usage, with_external
from rankd.core.ranking.name import Names, association_names, by_index, queue_names
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_view import queue_views
from rankd.core.ranking.ranking import RankingState, Usage
from rankd.mirror.application_table import ApplicationTable
from rankd.mirror.job_table import ALL, JobChanges, JobTable, Places, Snapshot, merged
from rankd.store.engine.connection import Connection
from rankd.store.engine.reading import open_for_reading
from rankd.store.record.adapter import InForce, StoredInput
from rankd.store.record.catalog import Catalog
from rankd.store.record.job import last_id
from rankd.store.record.made_queue import LiveQueues
from rankd.store.record.node import read_nodes

_OUTSIDE = "SELECT id FROM associations WHERE \"user\" <> '' AND NOT configured"
_NO_JOBS = JobColumns.from_rows([])

_CHARGES = """
SELECT l.id, j.association_id, l.charge_rate, l.allocated_at, l.ended_at
FROM allocations l JOIN jobs j ON j.id = l.job_id WHERE l.charged = 0"""


class Ledger(NamedTuple):
    """Usage with the ids of its associations, and of the allocations whose charges are not in it yet."""

    usage: Usage
    association_ids: IntArray
    charges: IntArray


class RankingSource:
    """The prioritizer's memory; everything in it can be read again from the database."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self.configuration = configuration
        self.jobs = JobTable()
        self._guard = threading.Lock()
        """Deltas read what is new while a pass reads everything."""
        self.association_ids: IntArray = np.empty(0, dtype=np.int64)
        self.tree_ids: IntArray = np.empty(0, dtype=np.int64)
        self.ledgers: tuple[Ledger, ...] = ()
        """The usage of the tree's associations; and of those that are not in it, as the rule ``zero`` has it."""
        self.state: RankingState | None = None
        self._catalog = catalog
        self._queues = LiveQueues(configuration, catalog)
        self._applications = ApplicationTable()
        self._sorts = load_application_sorts(configuration.partitions)
        self._node_event = 0
        self._tree: AccountTree | None = None
        self._association_names: tuple[tuple[str, str], ...] = ()
        self._usage: dict[int, tuple[float, float]] = {}
        self._outside_ids: IntArray = np.empty(0, dtype=np.int64)
        self._outside: frozenset[int] = frozenset()
        self._associations_known = (0, 0)
        self._inputs: tuple[InForce, Catalog] | None = None
        """What adapters have given since the last reading."""
        self._stated_usage: list[StoredInput] = []
        self._external: list[External] = []
        self._partition_of = self._places()

    def take_inputs(self, found: InForce, catalog: Catalog) -> None:
        """What adapters have given, from the next reading on."""
        self._inputs = found, catalog

    def configure(self, configuration: Configuration, catalog: Catalog) -> bool:
        """Another configuration, between two passes; whether deltas of the last pass can't go on with it."""
        with self._guard:
            before, self.configuration, self._catalog = self.configuration, configuration, catalog
            self._inputs = None
            self._queues = LiveQueues(configuration, catalog)
            self._sorts = load_application_sorts(configuration.partitions)
            self._associations_known = (0, 0)
            self._outside, self._outside_ids = frozenset(), np.empty(0, dtype=np.int64)
            self._partition_of = self._places()
        if _has_zero_rule(before) or self._is_zero_rule:  # who is in the tree stands in the jobs' rows
            self.jobs.forget()
            return True
        self.jobs.place(self._partition_of)
        return [one.name for one in before.partitions] != [one.name for one in configuration.partitions]

    def _adopt_inputs(self) -> None:
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            found, self._catalog = inputs
            self.configuration = found.configuration
            self._stated_usage = [stored for stored in found.inputs if stored.input.usage]
            self._associations_known = (0, 0)

    def load(self, path: str) -> None:
        """Begin with all pending jobs; blocks for a second per 400,000."""
        with closing(open_for_reading(Path(path))) as connection:
            outside = frozenset(row[0] for row in connection.execute(_OUTSIDE)) if self._is_zero_rule else frozenset()
            rows = connection.execute("SELECT id, partition FROM queues").fetchall()
            places = {partition.name: place for place, partition in enumerate(self.configuration.partitions)}
            self.jobs.load(connection, Places({id_: places.get(name, 0) for id_, name in rows}, outside))

    def take_changes(self, connection: Connection, limit: int = ALL) -> JobChanges:
        """What has happened to jobs since the last time, at most so many."""
        return self.jobs.read(connection, lambda: self._looked_up(connection), limit)

    def applications(self, connection: Connection) -> Applications:
        """All that there are, for placing jobs among those of an earlier pass."""
        with self._guard:
            return self._applications.read(connection, {}, [])

    def _looked_up(self, connection: Connection) -> Places:
        """Where jobs belong; who has come since is known then."""
        self._take_queues(connection)
        if self._is_zero_rule:
            self._take_associations(connection)
        return Places(self._partition_of, self._outside)

    def _take_queues(self, connection: Connection) -> None:
        with self._guard:
            if self._queues.refresh(connection):
                self._partition_of = self._places()

    @property
    def _is_zero_rule(self) -> bool:
        return _has_zero_rule(self.configuration)

    def refresh(self, connection: Connection) -> RankingState:
        """Take in what has changed since the last time; the state of now."""
        if not self.jobs.is_loaded:
            self.load(str(connection.engine.url.database))
        self.take_changes(connection)
        self.read_groups(connection)
        snapshot = self.jobs.snapshot()
        return self.adopt(snapshot, merged(snapshot))

    def adopt(self, snapshot: Snapshot, columns: JobColumns) -> RankingState:
        """The state with these jobs, which the snapshot became."""
        self.jobs.adopt(snapshot, columns)
        self.state = msgspec.structs.replace(self.known_state, jobs=columns)
        return self.state

    def read_groups(self, connection: Connection) -> None:
        """Everything of the state but its jobs."""
        self._adopt_inputs()
        self._take_queues(connection)
        self._take_associations(connection)
        self._node_event = last_id(connection, "node_events")
        nodes, use = read_nodes(connection)
        partitions = self._queues.partitions
        totals = [self._total(nodes, p.name) for p in partitions]
        views = [
            queue_views(partition, self._queues.ids, total, self._sorts)
            for partition, total in zip(partitions, totals, strict=True)
        ]
        self.state = RankingState(
            jobs=_NO_JOBS,
            tree=self._known_tree,
            association_ids=self.association_ids,
            usage=self._take_usage(connection),
            **self._qos_arrays(),
            queues=views,
            used=use.by_queue,
            shapes=list(self.jobs.amounts),
            totals=totals,
            partition_nodes=np.array([self._count(nodes, p.name) for p in partitions]),
            partition_cores=np.array([total.get(VCORE, 0) / 1000.0 for total in totals]),
            applications=self._read_applications(connection, use.by_application),
            names=Names(
                associations=self._association_names,
                qos=by_index(self._catalog.qos.items()),
                queues=queue_names(views),
                partitions=[partition.name for partition in partitions],
            ),
        )

    def _read_applications(self, connection: Connection, used: Mapping[int, Resources]) -> Applications:
        with self._guard:
            return self._applications.read(connection, used, self._filtering())

    @property
    def known_state(self) -> RankingState:
        """The state of the last :meth:`read_groups`."""
        assert self.state is not None  # noqa: S101 - read_groups comes first
        return self.state

    def _places(self) -> dict[int, int]:
        """The place of every queue's partition."""
        partitions = {p.name: place for place, p in enumerate(self.configuration.partitions)}
        return {id_: partitions.get(name, 0) for (name, _), id_ in self._queues.ids.items()}

    def _filtering(self) -> list[int]:
        """The leaves that may hold applications back."""
        return [
            self._queues.ids[partition.name, queue.path.lower()]
            for partition in self._queues.partitions
            for queue in walk_queues(partition.root)
            if not queue.parent and self._sorts[queue.properties.sort_policy].holds_back
        ]

    def has_other_nodes(self, connection: Connection) -> bool:
        """Whether nodes have come, gone or changed since the last :meth:`read_groups`."""
        return last_id(connection, "node_events") != self._node_event

    @property
    def _known_tree(self) -> AccountTree:
        assert self._tree is not None  # noqa: S101 - _take_associations comes first
        return self._tree

    def _take_associations(self, connection: Connection) -> None:
        """Build the tree again when there is a new association."""
        with self._guard:
            self._build_tree(connection)

    def _build_tree(self, connection: Connection) -> None:
        known = connection.exec_driver_sql("SELECT count(*), coalesce(max(id), 0) FROM associations").one()
        if tuple(known) == self._associations_known:
            return
        rows = connection.exec_driver_sql(
            'SELECT id, account, "user", parent, shares, shares_parent, is_default, usage, usage_at, priority,'
            " configured FROM associations ORDER BY id"
        ).all()
        self._usage = {row[0]: (row[7], row[8]) for row in rows}
        self._associations_known = (known[0], known[1])
        if self._is_zero_rule:
            self._outside = frozenset(row[0] for row in rows if row[2] and not row[10])
            self._outside_ids = np.array(sorted(self._outside), dtype=np.int64)
            rows = [row for row in rows if row[0] not in self._outside]
        listed = [_association(row) for row in rows]
        self._tree = AccountTree.build(listed)
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        places = self._tree.rows
        self.tree_ids = np.where(places >= 0, ids[np.maximum(places, 0)], -1)
        self.association_ids = self.tree_ids[self._tree.n_accounts :]
        self._association_names = association_names(self._tree, self.association_ids)
        self._external = [external_usage(one.input.usage, one.read_at, self._tree) for one in self._stated_usage]

    def _take_usage(self, connection: Connection) -> Usage:
        charges = connection.exec_driver_sql(_CHARGES).all()
        inside = [row for row in charges if row[1] not in self._outside]
        outside = [row for row in charges if row[1] in self._outside]
        self.ledgers = (self._ledger(self.association_ids, inside), self._ledger(self._outside_ids, outside))
        half_life_s = self.configuration.settings.priority.fairshare.half_life_s
        return with_external(self.ledgers[0].usage, self._external, half_life_s)

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


def _has_zero_rule(configuration: Configuration) -> bool:
    return configuration.settings.admission.unknown_association == "zero"


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

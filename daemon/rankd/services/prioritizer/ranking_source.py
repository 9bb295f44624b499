"""The prioritizer's view of the records, for full passes and deltas: the mirror's tables, kept up to date.

A `RankingState` is the input of the pure pass. Everything here can be read again from the database.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import walk_queues
from rankd.core.ranking.columns import JobColumns
from rankd.core.ranking.external_usage import External, external_usage, with_external
from rankd.core.ranking.name import Names, by_index, queue_names
from rankd.core.ranking.order import Applications
from rankd.core.ranking.queue_view import QueueView, queue_views
from rankd.core.ranking.ranking import RankingState, Usage
from rankd.mirror.application_table import ApplicationTable
from rankd.mirror.association_table import AssociationTable, Ledger
from rankd.mirror.job_table import JobChanges, JobTable, Membership, Snapshot
from rankd.mirror.partition_nodes import PartitionNodes, partition_nodes
from rankd.store.engine.connection import Connection
from rankd.store.feed.application import begun_applications, changing_applications
from rankd.store.feed.association import (
    AssociationRow,
    AssociationsVersion,
    associations_version,
    read_associations,
    unconfigured_users,
)
from rankd.store.feed.charge import open_charges
from rankd.store.feed.job import NO_LIMIT, LoadedJobs, changed_jobs, load_jobs, new_jobs
from rankd.store.feed.newest import newest
from rankd.store.feed.queue import partitions_of_queues
from rankd.store.record.adapter import InForce, StoredInput
from rankd.store.record.catalog import Catalog, read_catalog
from rankd.store.record.made_queue import LiveQueues
from rankd.store.record.node import read_nodes

_NO_JOBS = JobColumns.from_rows([])
_NOWHERE = Membership({}, frozenset())


class RankingSource:
    """The prioritizer's memory, in tables that follow the records."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self.configuration = configuration
        self.jobs = JobTable()
        self.associations = AssociationTable()
        self.ledgers: tuple[Ledger, ...] = ()
        """The usage of the associations in the tree, and of those outside of it."""
        self.state: RankingState | None = None
        self._guard = threading.Lock()
        """Needed because deltas read changes while a pass reads everything."""
        self._catalog = catalog
        self._queues = LiveQueues(configuration, catalog)
        self._applications = ApplicationTable()
        self._sorts = load_application_sorts(configuration.partitions)
        self._node_event = self._last_node_event = 0
        """The last event of a node that :meth:`read_groups` has seen, and the last that was seen at all."""
        self._associations_version: AssociationsVersion | None = None
        """The version of the tree; None if it has to be built again."""
        self._new_inputs: tuple[InForce, Catalog] | None = None
        """The inputs of adapters since the last reading."""
        self._usage_inputs: list[StoredInput] = []
        self._external: list[External] = []
        self._joining: Sequence[AssociationRow] = ()
        """Associations that are not in the records, for a question about jobs that nobody has submitted."""
        self._partition_of = self._partition_indices()

    def use_inputs(self, found: InForce, catalog: Catalog) -> None:
        """Use the inputs of adapters from the next :meth:`read_groups` on."""
        self._new_inputs = found, catalog

    def let_join(self, joining: Sequence[AssociationRow]) -> None:
        """Count these associations as well, from the next :meth:`read_groups` on."""
        self._joining, self._associations_version = joining, None

    def configure(self, configuration: Configuration, catalog: Catalog) -> bool:
        """Use another configuration, between two passes; returns whether deltas of the last pass have to stop."""
        with self._guard:
            before, self.configuration, self._catalog = self.configuration, configuration, catalog
            self._new_inputs = None
            self._queues = LiveQueues(configuration, catalog)
            self._sorts = load_application_sorts(configuration.partitions)
            self._associations_version = None
            self.associations.forget_outside()
            self._partition_of = self._partition_indices()
        if _only_configured(before) or _only_configured(configuration):  # jobs' rows depend on the users in the tree
            self.jobs.forget()
            return True
        self.jobs.set_partitions(self._partition_of)
        return [one.name for one in before.partitions] != [one.name for one in configuration.partitions]

    def cancels_unmet(self) -> bool:
        """Whether jobs that can never start are cancelled, if they don't say."""
        return self.configuration.settings.scheduling.cancel_if_unmet

    def load(self, connection: Connection, found: LoadedJobs | None = None) -> None:
        """Load all pending jobs, or use those that were ``found``. Takes a second per 400,000."""
        only_configured = _only_configured(self.configuration)
        outside = unconfigured_users(connection) if only_configured else frozenset[int]()
        places = {partition.name: place for place, partition in enumerate(self.configuration.partitions)}
        indices = {queue: places.get(name, 0) for queue, name in partitions_of_queues(connection).items()}
        self.jobs.load(found or load_jobs(connection), Membership(indices, outside))

    def stand_by(self, connection: Connection) -> None:
        """Load all pending jobs, or read what has changed, for a standby. Nothing is decided about these jobs."""
        if self.jobs.is_loaded:
            self.read_changes(connection)
        else:
            self.load(connection)
        self.jobs.new_jobs = new_jobs(connection)
        self.read_groups(connection)
        self.jobs.stand_by()

    def read_changes(self, connection: Connection, limit: int = NO_LIMIT) -> JobChanges:
        """Read the changes of jobs since the last call, of at most ``limit`` jobs."""
        last = newest(connection)
        self._last_node_event = last.node_event
        found = changed_jobs(connection, self.jobs.revision, self.jobs.shapes, limit, newest=last.job_event)
        return self.jobs.apply(found, self._membership(connection, last.catalog) if found.jobs else _NOWHERE)

    def _membership(self, connection: Connection, version: int) -> Membership:
        """The queues and associations of new jobs. Reads new ones first, because they may be new as well."""
        self._refresh_queues(connection, version)
        if _only_configured(self.configuration):
            self._refresh_associations(connection)
        return Membership(self._partition_of, self.associations.outside)

    def applications(self, connection: Connection) -> Applications:
        """All applications, for adding jobs to those of an earlier pass."""
        return self._read_applications(connection, {}, {})

    @property
    def has_other_nodes(self) -> bool:
        """Whether :meth:`read_changes` has seen changes of nodes after those that :meth:`read_groups` has seen."""
        return self._last_node_event > self._node_event

    def adopt(self, snapshot: Snapshot, columns: JobColumns) -> RankingState:
        """Keep the columns that contain the merged snapshot; returns the state with these jobs."""
        self.jobs.adopt(snapshot, columns)
        self.state = msgspec.structs.replace(self.known_state, jobs=columns, tasks=snapshot.tasks)
        return self.state

    @property
    def known_state(self) -> RankingState:
        """The state of the last :meth:`read_groups`."""
        assert self.state is not None  # noqa: S101 - read_groups comes first
        return self.state

    def read_groups(self, connection: Connection) -> None:
        """Read everything of the state except its jobs."""
        self._use_new_inputs()
        last = newest(connection)
        self._refresh_queues(connection, last.catalog)
        self._refresh_qos(connection)
        self._refresh_associations(connection)
        self._node_event = last.node_event
        nodes, use = read_nodes(connection)
        offered = [partition_nodes(nodes, partition.name) for partition in self._queues.partitions]
        views = self._queue_views(offered)
        states = changing_applications(connection, self._filtering())
        self.state = RankingState(
            jobs=_NO_JOBS,
            tree=self.associations.tree,
            association_ids=self.associations.ids,
            usage=self._read_usage(connection),
            **self._qos_arrays(),
            queues=views,
            used=use.by_queue,
            shapes=list(self.jobs.amounts),
            totals=[own.total for own in offered],
            partition_nodes=np.array([float(own.n_nodes) for own in offered]),
            partition_cores=np.array([own.cores for own in offered]),
            applications=self._read_applications(connection, use.by_application, states),
            names=self._names(views),
            tasks={},
        )

    def _queue_views(self, offered: Sequence[PartitionNodes]) -> list[list[QueueView]]:
        return [
            queue_views(partition, self._queues.ids, own.total, self._sorts)
            for partition, own in zip(self._queues.partitions, offered, strict=True)
        ]

    def _names(self, views: Sequence[Sequence[QueueView]]) -> Names:
        return Names(
            associations=self.associations.names,
            qos=by_index(self._catalog.qos.items()),
            queues=queue_names(views),
            partitions=[partition.name for partition in self._queues.partitions],
        )

    def _use_new_inputs(self) -> None:
        inputs, self._new_inputs = self._new_inputs, None
        if inputs is not None:
            found, self._catalog = inputs
            self.configuration = found.configuration
            self._usage_inputs = [stored for stored in found.inputs if stored.input.usage]
            self._associations_version = None

    def _read_applications(
        self, connection: Connection, used: Mapping[int, Resources], states: Mapping[int, str]
    ) -> Applications:
        with self._guard:
            self._applications.update(begun_applications(connection, self._applications.read_after))
            return self._applications.with_use(used, states)

    def _filtering(self) -> list[int]:
        """The leaf queues that may hold back applications."""
        return [
            self._queues.ids[partition.name, queue.path.lower()]
            for partition in self._queues.partitions
            for queue in walk_queues(partition.root)
            if not queue.parent and self._sorts[queue.properties.sort_policy].holds_back
        ]

    def _refresh_queues(self, connection: Connection, version: int) -> None:
        with self._guard:
            if self._queues.refresh(connection, version):
                self._partition_of = self._partition_indices()

    def _partition_indices(self) -> dict[int, int]:
        """The index of each queue's partition."""
        partitions = {p.name: place for place, p in enumerate(self.configuration.partitions)}
        return {id_: partitions.get(name, 0) for (name, _), id_ in self._queues.ids.items()}

    def _refresh_qos(self, connection: Connection) -> None:
        """Read the QoS again if a job has one of a later configuration, whose name is in the records already."""
        if self.jobs.largest_qos > max(self._catalog.qos.values(), default=-1):
            self._catalog = read_catalog(connection)

    def _refresh_associations(self, connection: Connection) -> None:
        """Build the tree again if an association has been added."""
        with self._guard:
            version = associations_version(connection)
            if version == self._associations_version:
                return
            only_configured = _only_configured(self.configuration)
            rows = [*read_associations(connection), *self._joining]
            self.associations.replace(rows, only_configured=only_configured)
            self._associations_version = version
            tree = self.associations.tree
            self._external = [external_usage(one.input.usage, one.read_at, tree) for one in self._usage_inputs]

    def _read_usage(self, connection: Connection) -> Usage:
        self.ledgers = self.associations.ledgers(open_charges(connection))
        half_life_s = self.configuration.settings.priority.fairshare.half_life_s
        return with_external(self.ledgers[0].usage, self._external, half_life_s)

    def _qos_arrays(self) -> dict[str, np.ndarray]:
        size = max(self._catalog.qos.values(), default=-1) + 1
        priorities, factors = np.zeros(size), np.full(size, np.nan)
        for qos in self.configuration.settings.qos:
            id_ = self._catalog.qos[qos.name]
            priorities[id_] = qos.priority
            factors[id_] = math.nan if qos.factor is None else qos.factor
        return {"qos_priorities": priorities, "qos_factors": factors}


def _only_configured(configuration: Configuration) -> bool:
    """Whether users that the configuration does not list stay outside of the tree."""
    return configuration.settings.admission.unknown_association == "zero"

"""The queues of all partitions as the scheduler uses them, and what it derives from their limits and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts
from rankd.core.model.queue import Partition
from rankd.core.placement.node_set import NodeSet
from rankd.core.ranking.application_order import filter_policy
from rankd.core.ranking.queue_view import QueueView, queue_views
from rankd.mirror.partition_queues import PartitionQueues
from rankd.mirror.pending_kinds import Rules
from rankd.store.engine.connection import Connection
from rankd.store.record.catalog import Catalog
from rankd.store.record.made_queue import LiveQueues


class ScheduledQueues:
    """The configuration's queues and those that were made on first use; :meth:`refresh` finds new ones."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self._live = LiveQueues(configuration, catalog)
        self._sorts = load_application_sorts(configuration.partitions)
        self._known: dict[str, PartitionQueues] = {}

    def refresh(self, connection: Connection, version: int) -> bool:
        """Read the queues that jobs made, unless this version of the catalog is known. Returns whether they differ."""
        return self._live.refresh(connection, version)

    @property
    def partitions(self) -> Sequence[Partition]:
        """All partitions with their queue trees."""
        return self._live.partitions

    def of(self, partition: Partition, nodes: Mapping[str, NodeSet]) -> PartitionQueues:
        """A partition's queues. Returns the same object as long as its queues and the sum of its nodes are the same."""
        total, known = nodes[partition.name].totals, self._known.get(partition.name)
        if known is None or not known.is_of(partition, total):
            views = queue_views(partition, self._live.ids, total, self._sorts)
            known = self._known[partition.name] = PartitionQueues(partition, total, views)
        return known

    def by_usage(self, nodes: Mapping[str, NodeSet]) -> frozenset[int]:
        """Leaves that sort applications by their resource usage."""
        return frozenset[int]().union(*(self.of(partition, nodes).by_usage for partition in self.partitions))

    def all(self, nodes: Mapping[str, NodeSet]) -> frozenset[int]:
        """All queues."""
        return frozenset(view.id for partition in self.partitions for view in self.of(partition, nodes).views)

    def rules(self, default_time_limit_s: float | None) -> Rules:
        """What distinguishes kinds: leaves below queues with limits, and below queues with ``maxapplications``."""
        by_user: set[int] = set()
        by_application: set[int] = set()
        for view in self._views():
            if view.limits or view.parent in by_user:
                by_user.add(view.id)
            if _counts_applications(view) or view.parent in by_application:
                by_application.add(view.id)
        return Rules(default_time_limit_s, frozenset(by_user), frozenset(by_application))

    def limited_types(self) -> set[str]:
        """Resource types that at least one queue limits."""
        return {kind for view in self._views() for kind in view.maximum}

    def filtering(self) -> list[int]:
        """Leaves that may hold back applications."""
        return [view.id for view in self._views() if filter_policy(view) is not None]

    def _views(self) -> Iterator[QueueView]:
        """The queues of all partitions, parents before children."""
        for partition in self.partitions:
            yield from queue_views(partition, self._live.ids, {}, self._sorts)


def _counts_applications(view: QueueView) -> bool:
    return bool(view.maxapplications) or any(limit.maxapplications for limit in view.limits)

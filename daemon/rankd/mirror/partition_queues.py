"""The queues of a partition as cycles need them, and data derived from them. Made again only when they change."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.model.queue import Partition
from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.application_order import usage_policy
from rankd.core.ranking.queue_view import QueueView


class PartitionQueues:
    """``views``: the queues of a partition, root first. ``total``: the resources of all its nodes.

    ``by_usage``: leaves that sort applications by their resource usage. ``needs_tenants``: whether a quota counts
    running jobs one by one.
    """

    def __init__(self, partition: Partition, total: Resources, views: list[QueueView]) -> None:
        self.views = views
        self.by_usage = frozenset(view.id for view in views if usage_policy(view) is not None)
        self.needs_tenants = any(view.limits or view.maxapplications for view in views)
        self._partition = partition
        self._total = total
        self._parents = {view.id: view.parent for view in views}
        self._ids = self._parents.keys()

    def own(self, waiting: Mapping[int, WaitingJobs]) -> Mapping[int, WaitingJobs]:
        """The waiting jobs of these queues, by leaf."""
        if waiting.keys() <= self._ids:
            return waiting
        return {queue: jobs for queue, jobs in waiting.items() if queue in self._ids}

    def is_of(self, partition: Partition, total: Resources) -> bool:
        """Whether these are the queues of this partition object and this sum of nodes."""
        return partition is self._partition and total == self._total

    def used(self, by_queue: Mapping[int, Resources]) -> dict[int, Resources]:
        """The usage of leaves, summed up for all queues above them. Queues without usage are left out."""
        rolled: dict[int, Resources] = {}
        for queue, amounts in by_queue.items():
            at = queue if queue in self._parents else None
            while at is not None:
                add_amounts(rolled.setdefault(at, {}), amounts)
                at = self._parents[at]
        return rolled

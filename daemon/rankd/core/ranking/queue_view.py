"""The queue trees of all partitions as flat records with their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from rankd.core.model.quantity import Resources
from rankd.core.model.queue import Limit, Partition, Queue, QueueProperties
from rankd.core.ranking.application_sort import ApplicationSortPolicy
from rankd.core.ranking.queue_key import effective_max


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue.

    ``effective_max``: the minimum of the partition's total and the maxima on the path. ``maximum``: the queue's own
    configured one. ``maxapplications`` 0 means not set. The ``limits`` of a root without any are the partition's.
    ``application_sort``: the sorting policy of a leaf; without one, its applications are sorted by creation time.
    """

    id: int
    path: str
    parent: int | None
    properties: QueueProperties
    guaranteed: Resources = {}
    effective_max: Resources = {}
    maximum: Resources = {}
    maxapplications: int = 0
    limits: tuple[Limit, ...] = ()
    application_sort: ApplicationSortPolicy | None = None


def queue_views(
    partition: Partition,
    ids: Mapping[tuple[str, str], int],
    total: Resources,
    sorts: Mapping[str, ApplicationSortPolicy],
) -> list[QueueView]:
    """A partition's queues, root first, every parent before its children.

    ``ids`` by (partition, path in lower case); ``total`` is the sum of the partition's nodes; ``sorts`` holds all
    policies that leaves name (:func:`.queue.sort_policies`).
    """
    views = list(_views(partition.root, None, (), partition.name, ids, total, sorts))
    if partition.limits and not views[0].limits:
        views[0] = msgspec.structs.replace(views[0], limits=partition.limits)
    return views


def _views(
    queue: Queue,
    parent: int | None,
    maxima: tuple[Mapping[str, int], ...],
    partition: str,
    ids: Mapping[tuple[str, str], int],
    total: Resources,
    sorts: Mapping[str, ApplicationSortPolicy],
) -> Iterator[QueueView]:
    own = (*maxima, queue.max)
    id_ = ids[partition, queue.path.lower()]
    yield QueueView(
        id=id_,
        path=queue.path,
        parent=parent,
        properties=queue.properties,
        guaranteed=queue.guaranteed,
        effective_max=effective_max(own, total),
        maximum=queue.max,
        maxapplications=queue.maxapplications,
        limits=queue.limits,
        application_sort=None if queue.parent else sorts[queue.properties.sort_policy],
    )
    for child in queue.queues:
        yield from _views(child, id_, own, partition, ids, total, sorts)


def roll_up(amounts: Mapping[int, Resources], views: Sequence[QueueView]) -> dict[int, Resources]:
    """The amounts of leaves, added to all queues above them. Every queue of ``views`` has an entry."""
    rolled: dict[int, Resources] = {view.id: dict(amounts.get(view.id, {})) for view in views}
    for view in reversed(views):
        if view.parent is not None:
            above = rolled[view.parent]
            for kind, amount in rolled[view.id].items():
                above[kind] = above.get(kind, 0) + amount
    return rolled

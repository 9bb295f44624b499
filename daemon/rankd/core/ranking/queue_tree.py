"""A partition's queues as parallel tuples, for look-ups and passes; the position in them is a queue's index.

Pure and frozen: a reload makes a new tree. Nothing here changes with jobs; usage, pending and priorities are
kept elsewhere, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.core.model.queue import Partition, Queue, QueueProperties
from rankd.core.ranking.queue_key import effective_max

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rankd.core.model.quantity import Resources

NO_PARENT = -1


class QueueTree(msgspec.Struct, frozen=True, kw_only=True):
    """Queues in pre-order: root has index 0, parents stand before children, siblings as configured.

    ``parents`` holds :data:`NO_PARENT` for root; ``children`` and ``leaves`` hold ascending indices.
    """

    partition: str
    queues: tuple[Queue, ...]
    parents: tuple[int, ...]
    paths: tuple[str, ...]
    is_leaf: tuple[bool, ...]
    properties: tuple[QueueProperties, ...]
    children: tuple[tuple[int, ...], ...]
    leaves: tuple[int, ...]
    by_path: dict[str, int]

    @classmethod
    def of(cls, partition: Partition) -> QueueTree:
        """The tree of a partition."""
        placed = list(_preorder(partition.root, NO_PARENT, 0))
        queues = tuple(queue for queue, _ in placed)
        children: list[list[int]] = [[] for _ in placed]
        for index, (_, parent) in enumerate(placed):
            if parent != NO_PARENT:
                children[parent].append(index)
        return cls(
            partition=partition.name,
            queues=queues,
            parents=tuple(parent for _, parent in placed),
            paths=tuple(queue.path for queue in queues),
            is_leaf=tuple(not queue.parent for queue in queues),
            properties=tuple(queue.properties for queue in queues),
            children=tuple(tuple(indices) for indices in children),
            leaves=tuple(index for index, queue in enumerate(queues) if not queue.parent),
            by_path={queue.path.lower(): index for index, queue in enumerate(queues)},
        )

    def find(self, path: str) -> int | None:
        """The index of the queue with this full path, case ignored; None where there is none."""
        return self.by_path.get(path.lower())

    def upwards(self, index: int) -> Iterator[int]:
        """The queue itself, its parent, and so on to root."""
        while index != NO_PARENT:
            yield index
            index = self.parents[index]

    def effective_max(self, total: Mapping[str, int]) -> tuple[Resources, ...]:
        """Per queue the component-wise minimum down its path, beginning with the partition's total.

        A type that neither the total nor a maximum on the path defines is left out. With an empty total
        these are the configured maxima, which quotas are measured by.
        """
        maxima: list[Resources] = []
        for queue, parent in zip(self.queues, self.parents, strict=True):
            above = total if parent == NO_PARENT else maxima[parent]
            maxima.append(effective_max((queue.max,), above))
        return tuple(maxima)


def _preorder(queue: Queue, parent: int, index: int) -> Iterator[tuple[Queue, int]]:
    yield queue, parent
    next_index = index + 1
    for child in queue.queues:
        for placed in _preorder(child, index, next_index):
            yield placed
            next_index += 1

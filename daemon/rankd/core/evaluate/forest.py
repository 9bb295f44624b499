"""The queues of all partitions with the indices that a document's decision uses for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rankd.core.admission.admit import QueueEntry
from rankd.core.model.queue import Partition
from rankd.core.ranking.queue_tree import QueueTree


class Forest(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions in the document's order; a queue's id counts them all, partition by partition, root first.

    ``ids`` and ``entries`` are by (partition, path in lower case), as admission looks queues up; ``places`` says
    for every id its partition's place.
    """

    partitions: tuple[Partition, ...]
    names: tuple[str, ...]
    ids: Mapping[tuple[str, str], int]
    entries: Mapping[tuple[str, str], QueueEntry]
    paths: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Forest:
        """The forest of a configuration."""
        trees = [QueueTree.of(partition) for partition in partitions]
        keys = [(tree.partition, path.lower()) for tree in trees for path in tree.paths]
        found = [entry for tree in trees for entry in _entries(tree)]
        return cls(
            partitions=tuple(partitions),
            names=tuple(tree.partition for tree in trees),
            ids={key: id_ for id_, key in enumerate(keys)},
            entries=dict(zip(keys, found, strict=True)),
            paths=tuple(entry.path for entry in found),
            places=tuple(place for place, tree in enumerate(trees) for _ in tree.paths),
        )

    def find(self, path: str, partitions: Iterable[str] | None = None) -> QueueEntry | None:
        """The queue of this path in the first of the partitions that has it; ``root.`` may be left out."""
        for partition in self.names if partitions is None else partitions:
            for wanted in (path, f"root.{path}"):
                found = self.entries.get((partition, wanted.lower()))
                if found is not None:
                    return found
        return None

    def id_of(self, queue: QueueEntry) -> int:
        """The queue's id."""
        return self.ids[queue.partition, queue.path.lower()]


def _entries(tree: QueueTree) -> list[QueueEntry]:
    """The queues as admission sees them, each with the least configured maximum down its path."""
    rows = zip(tree.paths, tree.is_leaf, tree.effective_max({}), strict=True)
    return [
        QueueEntry(partition=tree.partition, path=path, is_leaf=is_leaf, maximum=maximum)
        for path, is_leaf, maximum in rows
    ]

"""The queues of all partitions, with the ids that the decision on a document uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rankd.core.admission.queue_entry import QueueEntry, find_queue, queue_entries
from rankd.core.model.queue import Partition, with_made


class QueueCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions in the document's order. Ids count the queues of all partitions, one partition after another.

    In a partition, root is first. The keys of ``ids`` and ``entries`` are (partition, path in lower case), as in
    admission. ``places``: the index of the queue's partition, by queue id.
    """

    partitions: tuple[Partition, ...]
    names: tuple[str, ...]
    ids: Mapping[tuple[str, str], int]
    entries: Mapping[tuple[str, str], QueueEntry]
    paths: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> QueueCatalogue:
        """The catalogue of a configuration."""
        partitions = tuple(partitions)
        names = tuple(partition.name for partition in partitions)
        entries = {key: entry for partition in partitions for key, entry in queue_entries(partition).items()}
        places = {name: place for place, name in enumerate(names)}
        return cls(
            partitions=partitions,
            names=names,
            ids={key: id_ for id_, key in enumerate(entries)},
            entries=entries,
            paths=tuple(entry.path for entry in entries.values()),
            places=tuple(places[entry.partition] for entry in entries.values()),
        )

    def with_made(self, made: Iterable[tuple[str, str]]) -> QueueCatalogue:
        """The catalogue, with more leaf queues (partition, path) that first use makes."""
        wanted = list(made)
        if not wanted:
            return self
        return QueueCatalogue.of(
            with_made(partition, [path for name, path in wanted if name == partition.name])
            for partition in self.partitions
        )

    def find(self, path: str, partitions: Iterable[str] | None = None) -> QueueEntry | None:
        """The queue of this path in the first of the partitions that has it, or None. ``root.`` may be left out."""
        return find_queue(path, self.names if partitions is None else tuple(partitions), self.entries)

    def id_of(self, queue: QueueEntry) -> int:
        """The queue's id."""
        return self.ids[queue.partition, queue.path.lower()]

"""Queues for the checks of submissions, by (partition, path in lower case).

The entries are made once per configuration, and again after the first job of a new queue has made that queue.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from rankd.core.admission.acl import NOBODY, Acl, parse_acl
from rankd.core.errors import Refused
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import ROOT_QUEUE, Limit, Partition, Queue, allows_children, make_path
from rankd.core.ranking.queue_key import effective_max

MAX_LEVELS = 32

Key = tuple[str, str]
"""A partition and a path in lower case."""


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A queue for admission.

    ``maximum``: the smallest configured maximum on its path, by resource type. ``access``: None means open to all.
    ``admins``: who administers the jobs of this queue, by the lists ``adminacl`` on its path.
    ``below``: the queue itself if first use makes queues below it, else None. ``made``: the queues that the job makes
    on first use, parents first; empty for a queue that exists. ``limits``: (path of a queue, its limits of users and
    groups) for each queue on the path that has some, the top queue first.
    """

    partition: str
    path: str
    is_leaf: bool
    maximum: Resources = {}
    access: Acl | None = None
    admins: Acl = NOBODY
    below: Queue | None = None
    made: tuple[Queue, ...] = ()
    limits: tuple[tuple[str, tuple[Limit, ...]], ...] = ()


def queue_entries(partition: Partition) -> dict[Key, QueueEntry]:
    """All queues of a partition, parents before children."""
    top = QueueEntry(
        partition=partition.name, path="", is_leaf=False, access=NOBODY if _is_restricted(partition.root) else None
    )
    root = partition.root
    if partition.limits and not root.limits:
        root = msgspec.structs.replace(root, limits=partition.limits)
    return dict(_entries(root, top))


def _is_restricted(queue: Queue) -> bool:
    """Whether any queue of the tree has an access list."""
    return bool(queue.submitacl or queue.adminacl) or any(_is_restricted(child) for child in queue.queues)


def _entries(queue: Queue, above: QueueEntry) -> Iterator[tuple[Key, QueueEntry]]:
    access = above.access
    if access is not None:
        access = access.with_more(parse_acl(queue.submitacl)).with_more(parse_acl(queue.adminacl))
    entry = QueueEntry(
        partition=above.partition,
        path=queue.path,
        is_leaf=not (queue.parent or queue.queues),
        maximum=effective_max((queue.max,), above.maximum),
        access=access,
        admins=above.admins.with_more(parse_acl(queue.adminacl)),
        below=queue if allows_children(queue) else None,
        limits=(*above.limits, (queue.path, queue.limits)) if queue.limits else above.limits,
    )
    yield (entry.partition, queue.path.lower()), entry
    for child in queue.queues:
        yield from _entries(child, entry)


def check_depth(path: str) -> None:
    """Check the number of a queue path's levels.

    Raises:
        Refused: ``too_many``.
    """
    levels = path.count(".") + 1
    if levels > MAX_LEVELS:
        message = f"queue has {levels} levels, {MAX_LEVELS} are allowed; name a queue with a shorter path"
        raise Refused("too_many", message, "queue")


def find_queue(wanted: str, partitions: Sequence[str], entries: Mapping[Key, QueueEntry]) -> QueueEntry | None:
    """The queue of this path, ignoring case, in the first partition that has it; ``root.`` may be left out."""
    for partition in partitions:
        for path in (wanted, f"{ROOT_QUEUE}.{wanted}"):
            entry = entries.get((partition, path.lower()))
            if entry is not None:
                return entry
    return None


def made_queue(wanted: str, partitions: Sequence[str], entries: Mapping[Key, QueueEntry]) -> QueueEntry | None:
    """The queue that a job makes on first use, in the first partition where a parent allows it.

    Returns None if no partition allows it.

    Raises:
        Refused: ``bad_queue_name``.
    """
    names = wanted.split(".")
    if names[0].lower() != ROOT_QUEUE:
        names = [ROOT_QUEUE, *names]
    for partition in partitions:
        entry, rest = _nearest(names, partition, entries)
        if entry is not None and entry.below is not None:
            return _made(entry, entry.below, rest)
    return None


def _nearest(
    names: Sequence[str], partition: str, entries: Mapping[Key, QueueEntry]
) -> tuple[QueueEntry | None, Sequence[str]]:
    """The deepest existing queue on the path above its last name, and the names below that queue."""
    found, path = None, ""
    for depth, name in enumerate(names[:-1]):
        path = f"{path}.{name.lower()}" if path else name.lower()
        entry = entries.get((partition, path))
        if entry is None:
            return found, names[depth:]
        found = entry
    return found, names[-1:]


def _made(above: QueueEntry, parent: Queue, names: Sequence[str]) -> QueueEntry:
    made = make_path(parent, names)
    return msgspec.structs.replace(
        above,
        path=made[-1].path,
        is_leaf=True,
        maximum=effective_max((made[-1].max,), above.maximum),
        below=None,
        made=(*above.made, *made),
    )


def entries_with(made: Sequence[Queue], partition: str, entries: Mapping[Key, QueueEntry]) -> Mapping[Key, QueueEntry]:
    """The entries, and the queues ``made`` by a job on first use, parents first. For later jobs of the same message.

    The ``made`` of these later jobs has the same queues, because any of the jobs may be stored first.
    """
    added: dict[Key, QueueEntry] = {}
    above = entries[partition, made[0].path.rpartition(".")[0].lower()]
    for depth, queue in enumerate(made, start=1):
        above = QueueEntry(
            partition=partition,
            path=queue.path,
            is_leaf=not queue.parent,
            maximum=effective_max((queue.max,), above.maximum),
            access=above.access,
            admins=above.admins,
            below=queue if allows_children(queue) else None,
            made=tuple(made[:depth]),
            limits=above.limits,
        )
        added[partition, queue.path.lower()] = above
    return ChainMap(added, *(entries.maps if isinstance(entries, ChainMap) else [dict(entries)]))

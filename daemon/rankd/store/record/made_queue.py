"""Queues that jobs make. Written with the first job that names the queue; other services read them later."""

from __future__ import annotations

from sqlalchemy import bindparam, select, update

from rankd.config.configuration import Configuration
from rankd.core.errors import Refused
from rankd.core.model.job import AcceptedJob
from rankd.core.model.queue import Partition
from rankd.store.engine.connection import Connection
from rankd.store.record.catalog import Catalog, live_partitions, made_leaves, store_queues
from rankd.store.record.catalog_version import raise_version
from rankd.store.record.queue_event import note_made
from rankd.store.schema.table import queues

MAX_MADE = 10_000
"""The most queues that jobs can make. Each queue costs every service some time in every ranking."""


def queue_of(connection: Connection, accepted: AcceptedJob, catalog: Catalog, now: float) -> int:
    """The id of the job's queue. The first job that names a queue makes it.

    Raises:
        Refused: ``unknown_queue``: another job has meanwhile made a leaf queue where this job needs a parent queue, or
        a parent where it needs a leaf. ``too_many_queues``.
    """
    if accepted.made:
        _make_queues(connection, accepted, catalog, now)
    return catalog.queues[accepted.partition, accepted.queue.lower()]


def _make_queues(connection: Connection, accepted: AcceptedJob, catalog: Catalog, now: float) -> None:
    """Make the missing queues of the job's path. Another job may have made some of them after this job's admission."""
    keys = [(accepted.partition, queue.path.lower()) for queue in accepted.made]
    new = [
        (key, queue)
        for key, queue in zip(keys, accepted.made, strict=True)
        if key not in catalog.queues or key in catalog.removed
    ]
    _check_kinds(keys, catalog)
    if not new:
        return
    if len(catalog.made) >= MAX_MADE:
        message = f"{MAX_MADE} queues have been made on first use; name one of those, or ask an administrator"
        raise Refused("too_many_queues", message, "queue", status=409)
    again = [{"new": queue.path, "queue": catalog.queues[key]} for key, queue in new if key in catalog.queues]
    if again:  # a removed queue comes back, spelled as this job spells it
        connection.execute(update(queues).where(queues.c.id == bindparam("queue")).values(path=bindparam("new")), again)
    store_queues(connection, [(accepted.partition, queue, True) for _, queue in new])
    note_made(connection, accepted.partition, [queue.path for _, queue in new], accepted.user, now)
    raise_version(connection)
    of, paths = queues.c, [queue.path for _, queue in new]
    made = select(of.path, of.id).where(of.partition == accepted.partition, of.path.in_(paths))
    for path, id_ in connection.execute(made):
        catalog.queues[accepted.partition, path.lower()] = id_
    catalog.removed.difference_update(key for key, _ in new)
    catalog.made.append((accepted.partition, accepted.made[-1].path))


def _check_kinds(keys: list[tuple[str, str]], catalog: Catalog) -> None:
    leaves = {(partition, path.lower()) for partition, path in catalog.made}
    parents = {(partition, path.rpartition(".")[0]) for partition, path in leaves}
    if not leaves.isdisjoint(keys[:-1]) or keys[-1] in parents:
        message = f"'{keys[-1][1]}' has become a parent queue, or one above it a leaf; look at `rankd queues`"
        raise Refused("unknown_queue", message, "queue", status=409)


class LiveQueues:
    """The queue trees of a service, with the queues that jobs made, and the ids of all queues."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self._configuration = configuration
        self._made = list(catalog.made)
        self._version: int | None = None
        self.ids = dict(catalog.queues)
        self.partitions: list[Partition] = live_partitions(configuration, self._made)

    def refresh(self, connection: Connection, version: int) -> bool:
        """Read the queues that jobs made, unless this version of the catalog is known. Returns whether they differ."""
        if version == self._version:
            return False
        self._version, made = version, made_leaves(connection)
        if made == self._made:
            return False
        self._made, self.partitions = made, live_partitions(self._configuration, made)
        rows = connection.execute(select(queues.c.partition, queues.c.path, queues.c.id))
        self.ids = {(partition, path.lower()): id_ for partition, path, id_ in rows}
        return True

"""Queues that are made on first use: written with the job that makes them, seen by all services at their next look."""

from __future__ import annotations

import json

from sqlalchemy import Connection

from rankd.config.configuration import Configuration
from rankd.core.errors import Refused
from rankd.core.model.job import AcceptedJob
from rankd.core.model.queue import Partition
from rankd.store.record.catalog import Catalog, live_partitions, made_leaves, store_queues
from rankd.store.record.queue_event import note_made

MAX_MADE = 10_000
"""So many queues are made on first use and not more: each costs every service some time in every pass."""


def queue_of(connection: Connection, accepted: AcceptedJob, catalog: Catalog, now: float) -> int:
    """The id of the job's queue, which is made if the job is the first to go there.

    Raises:
        Refused: ``unknown_queue``: since the job was admitted, a leaf was made where a parent would have to be;
            ``too_many_queues``.
    """
    if accepted.made:
        _make_queues(connection, accepted, catalog, now)
    return catalog.queues[accepted.partition, accepted.queue.lower()]


def _make_queues(connection: Connection, accepted: AcceptedJob, catalog: Catalog, now: float) -> None:
    """Those of the job's path that are not there; another job may have made some since the job was admitted."""
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
    again = [(queue.path, catalog.queues[key]) for key, queue in new if key in catalog.queues]
    if again:  # as this job writes it
        connection.exec_driver_sql("UPDATE queues SET path = ? WHERE id = ?", again)
    store_queues(connection, [(accepted.partition, queue, True) for _, queue in new])
    note_made(connection, accepted.partition, [queue.path for _, queue in new], accepted.user, now)
    query = "SELECT path, id FROM queues WHERE partition = ? AND path IN (SELECT value FROM json_each(?))"
    paths = json.dumps([queue.path for _, queue in new])
    for path, id_ in connection.exec_driver_sql(query, (accepted.partition, paths)):
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
    """The queue trees of a service: its configuration's, with what first use has made; and the ids of all queues."""

    def __init__(self, configuration: Configuration, catalog: Catalog) -> None:
        self._configuration = configuration
        self._made = list(catalog.made)
        self.ids = dict(catalog.queues)
        self.partitions: list[Partition] = live_partitions(configuration, self._made)

    def refresh(self, connection: Connection) -> bool:
        """Take in what was made since; whether anything was."""
        made = made_leaves(connection)
        if made == self._made:
            return False
        self._made, self.partitions = made, live_partitions(self._configuration, made)
        rows = connection.exec_driver_sql("SELECT partition, path, id FROM queues")
        self.ids = {(partition, path.lower()): id_ for partition, path, id_ in rows}
        return True

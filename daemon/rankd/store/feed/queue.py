"""Queues, as the records have them."""

from __future__ import annotations

from sqlalchemy import select

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import queues


def partitions_of_queues(connection: Connection) -> dict[int, str]:
    """The name of each queue's partition by the queue's id, including queues that are no longer configured."""
    return {row.id: row.partition for row in connection.execute(select(queues.c.id, queues.c.partition))}

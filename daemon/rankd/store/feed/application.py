"""Named applications: all of them, those that have begun since, and the states that decide which may continue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import applications

_CHANGING = """
SELECT a.id, a.state FROM json_each(?) w JOIN applications a ON a.queue_id = w.value
WHERE a.state NOT IN ('running', 'completed', 'failed')"""
"""Text, because ``json_each`` makes one statement for any number of queues, and the driver keeps it prepared."""


class ApplicationRow(NamedTuple):
    """An application of a leaf queue. ``revision``: the event with which it began, or began again."""

    id: int
    queue: int
    name: str
    created_at: float
    revision: int


def begun_applications(connection: Connection, after: int) -> list[ApplicationRow]:
    """Applications that have begun, or begun again, after the event ``after``."""
    columns = applications.c
    query = select(columns.id, columns.queue_id, columns.name, columns.created_at, columns.revision)
    return [ApplicationRow._make(row) for row in connection.execute(query.where(columns.revision > after))]


def changing_applications(connection: Connection, queues: Sequence[int]) -> dict[int, str]:
    """The state of each application of these leaf queues; running and ended ones are left out."""
    if not queues:
        return {}
    return {row[0]: row[1] for row in connection.exec_driver_sql(_CHANGING, (json.dumps(queues),))}

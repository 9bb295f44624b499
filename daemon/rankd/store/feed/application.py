"""Named applications: all of them, those that have begun since, and the states that decide which may continue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import applications

_OF = applications.c
_BEGUN = select(_OF.id, _OF.queue_id, _OF.name, _OF.created_at, _OF.revision).where(_OF.revision > bindparam("after"))
"""Built once, because every cycle runs it: building it takes longer."""
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
    return [ApplicationRow._make(row) for row in connection.execute(_BEGUN, {"after": after})]


def changing_applications(connection: Connection, queues: Sequence[int]) -> dict[int, str]:
    """The state of each application of these leaf queues; running and ended ones are left out."""
    if not queues:
        return {}
    return {row[0]: row[1] for row in connection.exec_driver_sql(_CHANGING, (json.dumps(queues),))}

"""Named applications: all of them, those that have begun since, and the states that decide which may continue.

Uses SQLAlchemy Core, although each generation reads the states: ten queues take 39 µs, as text 36 µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from rankd.core.model.application import ENDED, ApplicationState
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, written
from rankd.store.schema.table import applications

_OF, _QUEUES = applications.c, listed("queues")
_BEGUN = select(_OF.id, _OF.queue_id, _OF.name, _OF.created_at, _OF.revision).where(_OF.revision > bindparam("after"))
_CHANGING = (
    select(_OF.id, _OF.state)
    .join_from(_QUEUES, applications, _OF.queue_id == _QUEUES.c.value)
    .where(_OF.state.not_in(written(ApplicationState.RUNNING, *sorted(ENDED))))
)


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
    return {row[0]: row[1] for row in connection.execute(_CHANGING, {"queues": queues})}

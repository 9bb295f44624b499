"""Notifications that wait: their number, and the age of the oldest."""

from __future__ import annotations

from sqlalchemy import case, func, literal_column, select

from rankd.store.engine.connection import Connection
from rankd.store.schema.table import notifications
from rankd.wire.diag import NotificationBacklog

_OF = notifications.c
_FAILING = func.coalesce(func.sum(case((_OF.attempts > 0, 1), else_=0)), 0)
_WAITING = select(func.count(), func.min(_OF.first_at), _FAILING).where(_OF.state == literal_column("'waiting'"))


def notification_backlog(connection: Connection, now: float) -> NotificationBacklog:
    """The number of waiting notifications, of those that have failed before, and the age of the oldest in seconds."""
    number, first, failing = connection.execute(_WAITING).one()
    return NotificationBacklog(
        waiting=number, failing=int(failing), oldest_s=0.0 if first is None else max(now - first, 0.0)
    )

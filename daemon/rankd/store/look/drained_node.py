"""Nodes that rankd itself has drained, for the alarms of ``rankd diag``."""

from __future__ import annotations

from sqlalchemy import column, select, table

from rankd.core.change.node_action import HEALTH_CHECK, UNFIT
from rankd.store.engine.connection import Connection

MOST = 100
_OF = table("node", *map(column, ("name", "drained_by", "drain_reason"))).c
_DRAINED = (
    select(_OF.name, _OF.drained_by, _OF.drain_reason)
    .where(_OF.drained_by.in_([HEALTH_CHECK, UNFIT]))
    .order_by(_OF.name)
    .limit(MOST)
)


def drained_nodes(connection: Connection) -> list[str]:
    """Which nodes a health check or the intake has drained and why, at most :data:`MOST`, in words."""
    return [
        f"node {name} is drained{' by its health check' if by == HEALTH_CHECK else ''}: {reason or 'no reason given'}"
        for name, by, reason in connection.execute(_DRAINED)
    ]

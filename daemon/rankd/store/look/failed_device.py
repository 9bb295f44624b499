"""Devices that have failed, for the alarms of ``rankd diag``."""

from __future__ import annotations

from sqlalchemy import column, select, table

from rankd.store.engine.connection import Connection

MOST = 100
NO_REASON = "the node's list says so"
_OF = table("device", *map(column, ("node", "type", "index", "state", "reason"))).c
_FAILED = (
    select(_OF.node, _OF.type, _OF.index, _OF.reason)
    .where(_OF.state == "failed")
    .order_by(_OF.node, _OF.index)
    .limit(MOST)
)


def failed_devices(connection: Connection) -> list[str]:
    """What has failed and why, at most :data:`MOST` devices, in words."""
    rows = connection.execute(_FAILED)
    return [
        f"node {node}: {kind} {index} has failed: {reason or 'its list says so'}" for node, kind, index, reason in rows
    ]

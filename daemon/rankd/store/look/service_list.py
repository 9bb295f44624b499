"""Services, their last signs of life, and the nodes that are silent.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch

NODE_UNHEARD_S = 30.0
"""Agents send a sign of life every ``node.heartbeat_s``, which is 5 s by default."""


def role_holders(connection: Reader) -> list[Row]:
    """Who holds each role: name, holder, epoch, since, alive_at, resigned_at, takeover_s."""
    columns = "name, holder, epoch, started_at AS since, alive_at, resigned_at, takeover_s"
    return fetch(connection, f"SELECT {columns} FROM service ORDER BY name")


def services(connection: Reader) -> Row:
    """``services`` with their last signs of life, and ``nodes`` that are silent.

    The intake records the reports of nodes, so a node's silence is measured up to the intake's last sign of life.
    """
    alive = fetch(connection, "SELECT name, holder, started_at, alive_at FROM service ORDER BY name")
    written = [row["alive_at"] for row in alive if row["name"] == "intake"]
    silent = fetch(
        connection,
        "SELECT name, heartbeat_at FROM node WHERE state IN ('up', 'draining') AND heartbeat_at < ? ORDER BY name",
        [written[0] - NODE_UNHEARD_S if written else 0.0],
    )
    return {"services": alive, "nodes": silent}

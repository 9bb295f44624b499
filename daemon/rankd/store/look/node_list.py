"""Nodes, their allocated resources, and the number of jobs that run on an agent's nodes.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.core.model.device import is_device_kind, kind_of, with_sum
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_TEXTS, JOIN_IN_ORDER, in_cores
from rankd.store.look.job_filter import as_json
from rankd.store.schema.whole_view import ON_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence


def nodes(connection: Reader) -> list[Row]:
    """Nodes by partition and name, with their ``allocated`` resources and their number of ``allocations``."""
    rows = fetch(
        connection,
        "SELECT name, partition, state, capacity, labels, agent, registered_at, heartbeat_at, drained_by, drained_at,"
        " drain_reason, confinement FROM node ORDER BY partition, name",
    )
    used = _allocated(connection)
    for row in rows:
        row["labels"] = msgspec.json.decode(row["labels"])
        row["allocations"], amounts = used.get(row["name"], (0, {}))
        row["allocated"] = amounts
    return rows


def _allocated(connection: Reader) -> dict[str, tuple[int, dict[str, float]]]:
    """The number of open allocations and the allocated resources, by node. The view needs one query per node."""
    sql = (
        f"SELECT l.id, p.node, {in_cores(ON_NODE)} AS amounts FROM allocations l"
        f" {JOIN_IN_ORDER} allocation_nodes p ON p.allocation_id = l.id WHERE l.ended_at IS NULL"
    )
    models = _held_models(connection)
    used: dict[str, tuple[int, dict[str, float]]] = {}
    for row in fetch(connection, sql):
        amounts = msgspec.json.decode(row["amounts"], type=dict[str, float])
        node = row["node"]
        number, total = used.get(node, (0, {}))
        held = models.get((row["id"], node), {})
        own = {kind: amount for kind, amount in amounts.items() if not (held and is_device_kind(kind))} | held
        used[node] = (number + 1, {k: total.get(k, 0) + own.get(k, 0) for k in total | own})
    return used


def _held_models(connection: Reader) -> dict[tuple[int, str], dict[str, int]]:
    """The number of devices that open allocations hold on each node, in all and of each model."""
    sql = "SELECT allocation_id, node, model FROM allocation_devices WHERE held = 1 ORDER BY node, device"
    found: dict[tuple[int, str], dict[str, int]] = {}
    for row in fetch(connection, sql):
        of, kind = found.setdefault((row["allocation_id"], row["node"]), {}), kind_of(row["model"])
        of[kind] = of.get(kind, 0) + 1
    return {key: with_sum(amounts) for key, amounts in found.items()}


def count_running(connection: Reader, agents: Sequence[str]) -> int:
    """The number of jobs that run on the nodes of these agents."""
    query = (
        "SELECT count(DISTINCT l.job_id) AS n FROM allocations l"
        f" {JOIN_IN_ORDER} allocation_nodes p ON p.allocation_id = l.id JOIN nodes n ON n.name = p.node"
        " WHERE l.ended_at IS NULL AND p.started_at IS NOT NULL AND p.ended_at IS NULL"
        f" AND n.agent {IN_TEXTS}"
    )
    return int(fetch(connection, query, [as_json(agents)])[0]["n"])

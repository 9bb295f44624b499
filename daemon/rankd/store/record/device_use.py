"""What jobs do with their devices, added up from the reports of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from rankd.core.change.idle_job import believable_s
from rankd.core.model.device_report import DeviceUse
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.engine.upsert import upsert
from rankd.store.schema.table import allocation_devices, device_uses, nodes


class _Before(NamedTuple):
    """What was known of a job's use of a device."""

    busy: float
    samples: int
    peak_bytes: int
    idle_s: float | None
    at: float | None


_HELD, _OF = allocation_devices.c, device_uses.c
_NEXT_BATCH = (
    update(nodes)
    .where(nodes.c.name == bindparam("of"), nodes.c.device_batch.is_distinct_from(bindparam("batch")))
    .values(device_batch=bindparam("batch"))
)
_KEY = ("allocation_id", "node", "device")
_NOTHING = _Before(0.0, 0, 0, None, None)


def add_uses(connection: Connection, node: str, uses: Sequence[DeviceUse], now: float, batch: str = "") -> list[int]:
    """Add what jobs did with their devices on a node. The node's last ``batch`` is not added again.

    Returns the allocations that never held the device there. What is reported about these has no effect.
    """
    if not uses or (batch and not connection.execute(_NEXT_BATCH, {"of": node, "batch": batch}).rowcount):
        return []
    asked = {"ids": sorted({use.allocation for use in uses})}
    held = select(_HELD.allocation_id, _HELD.device).where(
        _HELD.node == node, _HELD.allocation_id.in_(values_of("ids"))
    )
    known = {tuple(row) for row in connection.execute(held, asked)}
    before = _before(connection, node, asked)
    own = [use for use in uses if (use.allocation, use.id) in known]
    rows = [_added(node, use, before.get((use.allocation, use.id), _NOTHING), now) for use in own]
    upsert(connection, device_uses, _KEY, rows)
    return sorted({use.allocation for use in uses if (use.allocation, use.id) not in known})


def _before(connection: Connection, node: str, asked: dict[str, list[int]]) -> dict[tuple[int, str], _Before]:
    query = select(_OF.allocation_id, _OF.device, _OF.busy, _OF.samples, _OF.peak_bytes, _OF.idle_s, _OF.at).where(
        _OF.node == node, _OF.allocation_id.in_(values_of("ids"))
    )
    rows = connection.execute(query, asked)
    return {(allocation, device): _Before(*more) for allocation, device, *more in rows}


def _added(node: str, use: DeviceUse, before: _Before, now: float) -> dict[str, object]:
    return {
        "allocation_id": use.allocation,
        "node": node,
        "device": use.id,
        "recent": use.recent,
        "busy": before.busy + use.busy,
        "samples": before.samples + use.samples,
        "peak_bytes": max(before.peak_bytes, use.peak_bytes),
        "idle_s": believable_s(use.idle_s, before.idle_s, None if before.at is None else now - before.at),
        "at": now,
    }

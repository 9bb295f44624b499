"""For how long jobs have not used their devices, and the end of such jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import and_, func, select, update

from rankd.core.change.idle_job import ACTOR, CAUSE, DeviceIdleness, idle_event, is_to_be_ended, is_to_be_noted
from rankd.core.model.report import Report
from rankd.core.model.service_setting import DeviceSettings
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import values_of
from rankd.store.record.job import apply_changes, read_states
from rankd.store.record.node import record_node_event
from rankd.store.schema.table import allocation_devices, allocations, device_uses

_OF, _HELD, _USE = allocations.c, allocation_devices.c, device_uses.c
_IDLE = (
    select(
        _OF.id,
        _OF.job_id,
        func.min(_HELD.node),
        func.min(_OF.started_at),
        func.min(func.coalesce(_USE.idle_s, 0.0)),
    )
    .join_from(allocation_devices, allocations, _OF.id == _HELD.allocation_id)
    .outerjoin(
        device_uses,
        and_(_USE.allocation_id == _HELD.allocation_id, _USE.node == _HELD.node, _USE.device == _HELD.device),
    )
    .where(_HELD.held, _HELD.allocation_id.in_(values_of("ids")), _OF.started_at.is_not(None), _OF.cancel.is_(None))
    .group_by(_OF.id)
)
_END = update(allocations).where(_OF.id.in_(values_of("ids")), _OF.cancel.is_(None)).values(cancel=CAUSE)
_ENDED = select(_OF.id).where(_OF.id.in_(values_of("ids")), _OF.cancel == CAUSE)


def idle_times(connection: Connection, ids: Collection[int]) -> dict[int, float]:
    """For how many seconds all devices of these running allocations have been idle together; 0 if not known."""
    return {row[0]: row[4] for row in connection.execute(_IDLE, {"ids": ids})} if ids else {}


def end_idle(
    connection: Connection, before: dict[int, float], ids: Collection[int], settings: DeviceSettings, now: float
) -> list[int]:
    """Note and end those of these allocations that are idle. ``before``: :func:`idle_times` before the last report.

    Returns the jobs that are ended. Their agents learn it with their next heartbeat.
    """
    rows = connection.execute(_IDLE, {"ids": ids}).all() if ids else []
    idle = [
        DeviceIdleness(
            allocation=id_, job=job, node=node, running_s=now - started, before_s=before.get(id_, 0.0), after_s=idle_s
        )
        for id_, job, node, started, idle_s in rows
    ]
    _note(connection, [one for one in idle if is_to_be_noted(one, settings)], settings, now)
    over = [one for one in idle if is_to_be_ended(one, settings)]
    if over:
        connection.execute(_END, {"ids": [one.allocation for one in over]})
    return [one.job for one in over]


def _note(connection: Connection, idle: Sequence[DeviceIdleness], settings: DeviceSettings, now: float) -> None:
    """Record that these jobs are idle: for administrators at their nodes, and for their users, who may be notified."""
    states = read_states(connection, [one.job for one in idle]) if idle else {}
    for one in idle:
        name = states[one.job].name(one.job) if one.job in states else str(one.job)
        text = f"job {name} has not used its GPUs for {one.after_s:.0f} s"
        record_node_event(connection, one.node, "device", now, ACTOR, text)
    changes = [idle_event(one, states[one.job], settings) for one in idle if one.job in states]
    apply_changes(connection, [change for change in changes if change], now)


def with_cause(connection: Connection, reports: Sequence[tuple[str, Report]]) -> list[tuple[str, Report]]:
    """The reports, where the end of an allocation that was ended as idle has this cause: agents know one word only."""
    cancelled = sorted({report.allocation for _, report in reports if report.cause == "cancel"})
    idle = set(connection.execute(_ENDED, {"ids": cancelled}).scalars()) if cancelled else set()
    return [
        (node, msgspec.structs.replace(report, cause=CAUSE, message="the job did not use its GPUs"))
        if report.allocation in idle and report.cause == "cancel"
        else (node, report)
        for node, report in reports
    ]

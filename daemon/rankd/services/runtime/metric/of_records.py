"""The rows of the site as figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rankd.core.change.node_action import HEALTH_CHECK
from rankd.core.metric.figure import Figure, flag
from rankd.core.metric.label import MOST, OTHER, label, together
from rankd.core.model.device import DeviceState
from rankd.store.engine.reading import Row
from rankd.store.look.site_figures import SiteRows

DRAINED_BY = (HEALTH_CHECK, "rankd", "administrator")
MOST_USERS = 20
"""The users with most pending jobs are named. The others are counted together."""


def site_figures_of(rows: SiteRows, now: float) -> list[Figure]:
    """All figures of the site; ``now`` in UTC seconds."""
    return [*_jobs(rows), *_nodes(rows), *_waiting(rows, now), *_working(rows), *_roles(rows)]


def _jobs(rows: SiteRows) -> Iterator[Figure]:
    yield from together(
        "rankd_jobs", (((row["state"], row["queue"], row["reason"]), row["jobs"]) for row in rows.jobs), place=1
    )
    if not rows.users:
        return
    pending = sum(row["jobs"] for row in rows.jobs if row["state"] == "pending")
    named = {label(row["user"]): row["jobs"] for row in rows.users}
    for user, jobs in named.items():
        yield Figure("rankd_user_pending_jobs", jobs, (user,))
    if (others := pending - sum(named.values())) > 0:
        yield Figure("rankd_user_pending_jobs", others, (OTHER,))


def _nodes(rows: SiteRows) -> Iterator[Figure]:
    for row in rows.nodes:
        yield Figure("rankd_nodes", row["nodes"], (row["state"],))
    yield Figure("rankd_nodes_silent", rows.silent)
    heard = [row["oldest"] for row in rows.nodes if row["state"] in ("up", "draining") and row["oldest"] is not None]
    if heard:
        yield Figure("rankd_node_oldest_heartbeat_timestamp_seconds", min(heard))
    drained = {row["who"]: row["nodes"] for row in rows.drained}
    for who in DRAINED_BY:
        yield Figure("rankd_nodes_drained", drained.get(who, 0), (who,))
    yield from together("rankd_devices", (((row["type"], row["state"]), row["devices"]) for row in rows.devices), 0)
    yield from together(
        "rankd_devices_by_model", (((row["type"], row["model"], _use(row)), row["devices"]) for row in rows.devices), 1
    )


def _use(row: Row) -> str:
    """Whether a job has these devices, or why none can get them."""
    if row["held"]:
        return "in use"
    return "free" if row["state"] == DeviceState.OK else str(row["state"])


def _waiting(rows: SiteRows, now: float) -> Iterator[Figure]:
    yield Figure("rankd_outbox_events", rows.outbox["events"])
    yield Figure("rankd_event_lag_seconds", _since(rows.outbox["first"], now))
    yield Figure("rankd_notifications_waiting", rows.notifications["waiting"])
    yield Figure("rankd_notification_oldest_seconds", _since(rows.notifications["first"], now))


def _since(at: float | None, now: float) -> float:
    return 0.0 if at is None else max(now - at, 0.0)


def _working(rows: SiteRows) -> Iterator[Figure]:
    for row in rows.adapters[:MOST]:
        adapter = (label(row["name"]),)
        yield flag("rankd_adapter_failing", row["state"] == "failing", *adapter)
        if row["read_at"] is not None:
            yield Figure("rankd_adapter_read_timestamp_seconds", row["read_at"], adapter)
    if rows.generation is not None:
        yield Figure("rankd_generation", rows.generation["number"])
        yield Figure("rankd_generation_timestamp_seconds", rows.generation["made_at"] or rows.generation["ranked_at"])
        for factor in list(rows.generation["failures"] or ())[:MOST]:
            yield Figure("rankd_factor_failing", 1, (label(factor),))
    if rows.full_pass_at is not None:
        yield Figure("rankd_full_pass_timestamp_seconds", rows.full_pass_at)


def _roles(rows: SiteRows) -> Iterator[Figure]:
    for row in rows.roles:
        role = (label(row["name"]),)
        yield flag("rankd_role_held", row["resigned_at"] is None, *role)
        yield Figure("rankd_role_epoch", row["epoch"], role)
        if row["alive_at"] is not None:
            yield Figure("rankd_role_alive_timestamp_seconds", row["alive_at"], role)

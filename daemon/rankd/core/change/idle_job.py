"""Jobs that don't use their devices."""

from __future__ import annotations

import msgspec

from rankd.core.model.setting import DeviceSettings

FIRST_S = 600.0
"""A job is never idle in these first seconds of its run: programs load their data then."""
CAUSE = "idle"


class DeviceIdleness(msgspec.Struct, frozen=True, kw_only=True):
    """For how long all devices of an allocation have been idle together, in seconds, before and after a report.

    0 if that is not known of one of them.
    """

    allocation: int
    job: int
    node: str
    running_s: float
    before_s: float
    after_s: float


def is_to_be_noted(idle: DeviceIdleness, settings: DeviceSettings) -> bool:
    """Whether this report is the first one that says so."""
    limit_s = settings.idle_notify_s
    return limit_s is not None and idle.before_s < limit_s <= _believable_s(idle)


def is_to_be_ended(idle: DeviceIdleness, settings: DeviceSettings) -> bool:
    """Whether the job is to be ended."""
    return settings.idle_cancel_s is not None and _believable_s(idle) >= settings.idle_cancel_s


def _believable_s(idle: DeviceIdleness) -> float:
    """A job can't have been idle for longer than it runs, whatever its node says."""
    return min(idle.after_s, idle.running_s) if idle.running_s >= FIRST_S else 0.0

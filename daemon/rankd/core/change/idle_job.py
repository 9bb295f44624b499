"""Jobs that don't use their devices."""

from __future__ import annotations

import msgspec

from rankd.core.change.job_change import Change, JobState
from rankd.core.model.job import Event, State
from rankd.core.model.service_setting import DeviceSettings

FIRST_S = 600.0
"""A job is never idle in these first seconds of its run: programs load their data then."""
CAUSE = "idle"
ACTOR = "rankd"


def believable_s(idle_s: float | None, before_s: float | None, since_s: float | None) -> float | None:
    """For how long a device may have been idle: time passes for it as for others, whatever its node says.

    ``before_s``: what was believed in the report before, ``since_s`` seconds ago; None if this is the first one. So a
    node that lies can notify a job's user once in each ``idle_notify_s``, and not with each report.

    >>> believable_s(900.0, 550.0, 300.0), believable_s(900.0, None, None), believable_s(10.0, 550.0, 300.0)
    (850.0, 900.0, 10.0)
    """
    if idle_s is None or since_s is None:
        return idle_s
    return min(idle_s, (before_s or 0.0) + max(0.0, since_s))


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


def idle_event(idle: DeviceIdleness, state: JobState, settings: DeviceSettings) -> Change | None:
    """The event by which the job's user is notified; None if the job does not run any more."""
    if state.state is not State.RUNNING:
        return None
    end = "" if settings.idle_cancel_s is None else f"; it is ended after {settings.idle_cancel_s:.0f} s"
    cause = f"its GPUs were not used for {idle.after_s:.0f} s{end}"
    return Change(job=idle.job, state=state.state, event=Event.IDLE, actor=ACTOR, cause=cause)


def is_to_be_ended(idle: DeviceIdleness, settings: DeviceSettings) -> bool:
    """Whether the job is to be ended."""
    return settings.idle_cancel_s is not None and _believable_s(idle) >= settings.idle_cancel_s


def _believable_s(idle: DeviceIdleness) -> float:
    """A job can't have been idle for longer than it runs, whatever its node says."""
    return min(idle.after_s, idle.running_s) if idle.running_s >= FIRST_S else 0.0

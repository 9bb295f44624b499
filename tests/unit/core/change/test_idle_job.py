"""When a job counts as idle."""

import msgspec
import pytest

from rankd.core.change.idle_job import DeviceIdleness, believable_s, idle_event, is_to_be_ended, is_to_be_noted
from rankd.core.change.job_change import JobState
from rankd.core.model.job import State
from rankd.core.model.service_setting import DeviceSettings

RULE = DeviceSettings(idle_notify_s=3600, idle_cancel_s=7200)
IDLE = DeviceIdleness(allocation=1, job=7, node="n1", running_s=90_000, before_s=3400, after_s=3700)


def test_it_is_noted_once_when_the_limit_is_passed():
    assert is_to_be_noted(IDLE, RULE)
    assert not is_to_be_noted(msgspec.structs.replace(IDLE, before_s=3700, after_s=4000), RULE)
    assert not is_to_be_noted(msgspec.structs.replace(IDLE, after_s=3500), RULE)


@pytest.mark.parametrize(("after_s", "ended"), [(7199, False), (7200, True), (9999, True)])
def test_it_is_ended_after_its_own_limit(after_s, ended):
    assert is_to_be_ended(msgspec.structs.replace(IDLE, after_s=after_s), RULE) is ended


def test_nothing_happens_by_default():
    endless = msgspec.structs.replace(IDLE, after_s=1e9, running_s=1e9)
    assert not is_to_be_noted(endless, DeviceSettings())
    assert not is_to_be_ended(endless, DeviceSettings())


def test_a_job_is_never_idle_before_its_first_ten_minutes_nor_for_longer_than_it_runs():
    rule = DeviceSettings(idle_notify_s=600, idle_cancel_s=600)
    young = msgspec.structs.replace(IDLE, before_s=0, after_s=1e6, running_s=599)
    assert not is_to_be_ended(young, rule)
    assert not is_to_be_noted(young, rule)
    assert is_to_be_ended(msgspec.structs.replace(young, running_s=600), rule)
    liar = msgspec.structs.replace(IDLE, after_s=1e6, running_s=7000)
    assert not is_to_be_ended(liar, RULE)


@pytest.mark.parametrize(
    ("said_s", "before_s", "since_s", "believed_s"),
    [(None, 10.0, 5.0, None), (4000.0, None, 5.0, 5.0), (4000.0, 0.0, -7.0, 0.0), (12.0, 10.0, 5.0, 12.0)],
)
def test_a_device_is_not_idle_for_longer_than_the_clock_says(said_s, before_s, since_s, believed_s):
    assert believable_s(said_s, before_s, since_s) == believed_s


def test_the_user_of_a_running_job_is_told_when_it_will_end():
    running = JobState(
        user="a", state=State.RUNNING, held=False, blocked_by=None, urgency=16, allocation=1, requeue=True, requeues=0,
        cancelled_by=None,
    )  # fmt: skip
    change = idle_event(IDLE, running, RULE)
    assert (change.job, change.event) == (7, "idle")
    assert change.cause == "its GPUs were not used for 3700 s; it is ended after 7200 s"
    assert idle_event(IDLE, running, DeviceSettings(idle_notify_s=3600)).cause.endswith("3700 s")
    assert idle_event(IDLE, msgspec.structs.replace(running, state=State.PENDING), RULE) is None

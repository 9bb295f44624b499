"""The states of devices."""

from __future__ import annotations

from rankd.core.model.device import Device, DeviceState
from rankd.services.agent.device_owner import Owner
from rankd.services.agent.device_state import FINE, DeviceStatus, changed, status_of, unseen
from rankd.services.watcher.message import Seen

DEVICE = Device(model="a100", id="g0", index=0)
OWNERS = {7: Owner(7, 17, "alice"), 8: Owner(8, None, "bob"), 5: Owner(5, None, "carol"), 9: Owner(9, 99, "dave")}


def of(*pids: int, **more) -> DeviceStatus:
    return status_of(Seen(device=DEVICE, pids=list(pids), **more), OWNERS, {17})


def test_a_device_that_only_jobs_use_is_fine():
    assert of() == of(7) == FINE


def test_a_process_without_a_job_takes_its_device():
    assert of(7, 8) == DeviceStatus(state=DeviceState.TAKEN, by="8 bob")
    assert of(8, 5) == DeviceStatus(state=DeviceState.TAKEN, by="5 carol and 1 more")


def test_a_process_of_a_job_that_has_ended_takes_it_too():
    assert of(9) == DeviceStatus(state=DeviceState.TAKEN, by="9 dave")


def test_a_process_that_has_ended_takes_nothing():
    assert of(1234) == FINE


def test_an_error_of_the_device_is_no_state_since_the_records_keep_it():
    assert of(fault="XID 79 at 2026-01-01T00:00:00Z") == FINE


def test_a_device_that_can_not_be_read_fails_as_long_as_that_is_so():
    assert of(problem="Unknown Error") == DeviceStatus(state=DeviceState.FAILED, reason="Unknown Error")
    assert unseen(["g0"], "silent") == {"g0": DeviceStatus(state=DeviceState.FAILED, reason="silent")}


def test_only_what_differs_is_told():
    taken = DeviceStatus(state=DeviceState.TAKEN, by="8 bob")
    assert changed({}, {"g0": FINE, "g1": taken}) == {"g1": taken}
    assert changed({"g0": taken, "g1": taken}, {"g0": FINE, "g1": taken}) == {"g0": FINE}

"""The state of a device follows from its list, notes of its agent, orders of administrators, and the cards of jobs."""

import msgspec
import pytest

from rankd.core.model.device import DeviceState, ListedDevice
from rankd.core.model.device_record import DeviceOrder, HeldCard, StoredDevice, beside, stored, with_states
from rankd.core.model.device_report import DeviceNote

BROKEN = DeviceNote(id="g0", state=DeviceState.OK, fault="XID 79")
DRAINED, RESUMED = DeviceOrder(drained_by="root"), DeviceOrder(resumed=True)
G0 = ListedDevice(model="a100", id="g0", index=0, path=("/dev/nvidia0", "/dev/nvidiactl"))
HELD = HeldCard(job=17, id="old", index=0, path=("/dev/nvidia0", "/dev/nvidiactl"))
FAILED = msgspec.structs.replace(G0, state=DeviceState.FAILED)
TAKEN = msgspec.structs.replace(G0, state=DeviceState.TAKEN)


@pytest.mark.parametrize(
    ("device", "note", "order", "held", "state"),
    [
        (G0, None, None, None, "ok"),
        (G0, BROKEN, None, None, "failed"),
        (G0, BROKEN, RESUMED, None, "failed"),
        (FAILED, None, None, None, "failed"),
        (FAILED, None, RESUMED, None, "ok"),
        (FAILED, None, DeviceOrder(drained_by="root", resumed=True), None, "drained"),
        (TAKEN, None, None, None, "taken"),
        (TAKEN, None, DRAINED, None, "drained"),
        (G0, BROKEN, DRAINED, None, "failed"),
        (G0, None, None, HELD, "taken"),
        (G0, None, DRAINED, HELD, "drained"),
    ],
)
def test_the_strongest_reason_decides_the_state(device, note, order, held, state):
    notes, orders = {"g0": note} if note else {}, {"g0": order} if order else {}
    [found] = with_states([stored(device)], notes, orders, [held] if held else [])
    assert found.state == state
    assert found.blocked == ("job 17 holds this card as old" if held else "")


def test_a_device_that_an_older_version_stored_has_the_state_that_its_agent_noted():
    old = StoredDevice(model="a100", id="g0", index=0, state=DeviceState.FAILED)
    note = msgspec.structs.replace(BROKEN, fault="")
    assert [device.state for device in with_states([old], {"g0": note}, {}, [])] == ["ok"]
    assert [device.state for device in with_states([old], {}, {}, [])] == ["failed"]


def test_a_card_is_known_by_its_index_and_its_files():
    assert HELD.is_on(G0)
    assert HELD.is_on(msgspec.structs.replace(G0, index=5))
    assert HELD.is_on(msgspec.structs.replace(G0, path=("/dev/nvidia7",)))
    assert not HELD.is_on(msgspec.structs.replace(G0, index=5, path=("/dev/nvidia7", "/dev/nvidiactl")))
    assert not HELD.is_on(msgspec.structs.replace(G0, id="old")), "the same id is held anyway"


def test_parts_of_a_card_that_are_listed_together_do_not_block_each_other():
    parts = [msgspec.structs.replace(G0, id=f"part{number}") for number in range(3)]
    assert beside(parts[0], parts) == ("part1", "part2")
    held = HeldCard(job=1, id="part0", index=0, path=G0.path, beside=beside(parts[0], parts))
    assert not any(held.is_on(part) for part in parts)
    assert held.is_on(G0), "the whole card, after it is no longer in parts"

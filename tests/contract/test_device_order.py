"""What administrators order about single devices, and what their nodes can't undo."""

import msgspec
import pytest
from builder import NOW
from contract.test_device import MIXED, placed, two_jobs
from contract.test_device_note import BROKEN, FREE, TAKEN, capacity, device_events

from rankd.core.errors import Refused
from rankd.core.model.device import Device, DeviceState
from rankd.core.model.device_report import DeviceNote
from rankd.store.look import why
from rankd.store.look.device_list import devices
from rankd.store.look.failed_device import failed_devices
from rankd.store.record.device_fault import end_resumed, orders_of
from rankd.store.record.device_note import note_devices, write_notes
from rankd.store.record.device_order import DeviceWish, drain_device, fail_device, resume_device


def wish(device, reason="", node="n1"):
    return DeviceWish(node=node, device=device, actor="root", at=NOW, reason=reason)


async def states(store):
    return {row["id"]: row["state"] for row in await store.look(devices)}


async def test_nothing_new_starts_on_a_drained_device_and_a_running_job_goes_on(store):
    one, other = await two_jobs(store)
    await placed(store, one, ("g0",))
    await store.write(drain_device, wish("0", "the fan is loud"))
    await store.write(drain_device, wish("g1", "next in line"))
    found = {
        row["id"]: (row["state"], row["job"], row["reason"], row["drained_by"]) for row in await store.look(devices)
    }
    assert found == {"g0": ("drained", one, "the fan is loud", "root"), "g1": ("drained", None, "next in line", "root")}
    assert await placed(store, other, ("g1",)) == 0
    assert await capacity(store) == {"gpu": 2, "gpu:a100": 1, "gpu:v100": 1}, "it is to come back"
    assert await device_events(store) == ["gpu 0 is drained: the fan is loud", "gpu 1 is drained: next in line"]
    await store.add_nodes("n1", devices=MIXED, at=NOW + 1)
    assert set((await states(store)).values()) == {"drained"}, "also after its agent has registered again"
    await store.write(resume_device, wish("1"))
    assert await states(store) == {"g0": "drained", "g1": "ok"}
    assert list(await store.read(orders_of, "n1")) == ["g0"]
    assert await placed(store, other, ("g1",)) == 1


async def test_a_second_drain_without_a_reason_keeps_the_first_one(store):
    await two_jobs(store)
    await store.write(drain_device, wish("g0", "the fan is loud"))
    await store.write(drain_device, wish("g0"))
    assert (await store.look(devices))[0]["reason"] == "the fan is loud"
    await store.write(drain_device, wish("g0", "replaced on Monday"))
    assert (await store.look(devices))[0]["reason"] == "replaced on Monday"


async def test_a_drained_device_that_fails_needs_one_resume(store):
    await two_jobs(store)
    await store.write(drain_device, wish("g0"))
    await store.write(note_devices, "n1", [BROKEN], NOW)
    assert (await states(store))["g0"] == "failed"
    await store.write(resume_device, wish("g0"))
    assert (await states(store))["g0"] == "ok"


async def test_a_failure_can_be_rehearsed(store):
    one, other = await two_jobs(store)
    await placed(store, one, ("g0",))
    await store.write(fail_device, wish("0", "XID 79, a rehearsal"))
    [row] = [row for row in await store.look(devices) if row["id"] == "g0"]
    assert (row["state"], row["job"], row["reason"]) == ("failed", one, "XID 79, a rehearsal (said by root)")
    assert await capacity(store) == {"gpu": 1, "gpu:v100": 1}
    assert await device_events(store) == ["gpu 0 has failed: XID 79, a rehearsal (said by root)"]
    assert await placed(store, other, ("g0",)) == 0
    await store.write(resume_device, wish("g0"))
    assert (await states(store))["g0"] == "ok"


async def test_a_device_that_its_list_calls_failed_is_resumed_until_the_list_changes(store):
    broken = Device(model="a100", id="g0", index=0, state=DeviceState.FAILED)
    await store.add_nodes("n1", devices=[broken])
    await store.write(resume_device, wish("g0"))
    await store.add_nodes("n1", devices=[broken], at=NOW + 1)
    assert await states(store) == {"g0": "ok"}, "its list still says failed"
    await store.add_nodes("n1", devices=[msgspec.structs.replace(broken, state=DeviceState.OK)], at=NOW + 2)
    assert await store.read(orders_of, "n1") == {} or not (await store.read(orders_of, "n1"))["g0"].resumed
    await store.add_nodes("n1", devices=[broken], at=NOW + 3)
    assert await states(store) == {"g0": "failed"}, "it has failed once more"
    await store.write(end_resumed, "n1", ["g0"])


async def test_what_an_agent_sees_at_present_is_not_overruled(store):
    await two_jobs(store)
    hangs = DeviceNote(id="g0", state=DeviceState.FAILED, reason="the driver does not answer")
    await store.write(note_devices, "n1", [hangs], NOW)
    with pytest.raises(Refused, match="the driver does not answer; it is offered again as soon as"):
        await store.write(resume_device, wish("g0"))
    await store.write(write_notes, "n1", [FREE], NOW)


@pytest.mark.parametrize("order", [drain_device, fail_device, resume_device])
async def test_an_order_names_one_device_of_a_node(store, order):
    same = [Device(model="a100", id="nvidia", index=0), Device(model="mi300x", id="amd", index=0)]
    await store.add_nodes("n1", devices=same)
    for device, node, code in (
        ("0", "n1", "ambiguous_device"),
        ("7", "n1", "unknown_device"),
        ("0", "n9", "unknown_device"),
    ):
        with pytest.raises(Refused) as refused:
            await store.write(order, wish(device, node=node))
        assert refused.value.code == code


async def test_why_counts_what_is_free_and_names_what_is_drained(store):
    one, _ = await two_jobs(store, [*MIXED, Device(model="a100", id="g2", index=2)])
    await placed(store, one, ("g0",))
    await store.write(fail_device, wish("g0", "XID 79"))
    await store.write(drain_device, wish("g2", "a loud fan"))
    asked = {"resources": {"gpu": 2}, "constraints": None, "exclusive": False}
    [lack] = await store.look(why._lacks, "default", asked)
    assert (lack["amounts"], lack["taken"]) == ({"gpu": 1}, ["gpu 2 is drained: a loud fan"])


async def test_what_has_failed_is_an_alarm(store):
    await two_jobs(store)
    assert await store.read(failed_devices) == []
    await store.write(fail_device, wish("1", "XID 79"))
    await store.write(drain_device, wish("0"))
    assert await store.read(failed_devices) == ["node n1: gpu 1 has failed: XID 79 (said by root)"]


async def test_a_taken_device_that_is_drained_stays_drained_when_the_process_ends(store):
    await two_jobs(store)
    await store.write(note_devices, "n1", [TAKEN], NOW)
    await store.write(drain_device, wish("g0"))
    await store.write(note_devices, "n1", [FREE], NOW + 1)
    assert (await states(store))["g0"] == "drained"


async def test_a_device_that_its_list_calls_drained_needs_another_list(store):
    await store.add_nodes("n1", devices=[Device(model="a100", id="g0", index=0, state=DeviceState.DRAINED)])
    with pytest.raises(Refused, match="change its state in the file, and start the agent again"):
        await store.write(resume_device, wish("g0"))

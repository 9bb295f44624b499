"""What agents report about devices: states, errors that last, and what jobs do."""

import msgspec
import pytest
from builder import NOW
from contract.test_device import MIXED, placed, two_jobs
from contract.world import end

from rankd.core.errors import Refused
from rankd.core.model.device import DeviceState
from rankd.core.model.device_report import DeviceNote, DeviceUse
from rankd.core.model.report import Report
from rankd.core.model.service_setting import DeviceSettings
from rankd.store.look.accounting import accounting
from rankd.store.look.device_list import devices, recent_use
from rankd.store.look.why import why
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.allocation import ReasonRow, save_reasons
from rankd.store.record.device_fault import noted_at_registration, notes_of
from rankd.store.record.device_note import note_devices
from rankd.store.record.device_order import DeviceWish, resume_device
from rankd.store.record.device_use import add_uses
from rankd.store.record.idle_job import end_idle, idle_times, with_cause
from rankd.wire.message import AccountingFilter

RULE = DeviceSettings(idle_notify_s=3600, idle_cancel_s=7200)
TAKEN = DeviceNote(id="g0", state=DeviceState.TAKEN, by="4711 bob")
FREE = DeviceNote(id="g0", state=DeviceState.OK)
BROKEN = DeviceNote(id="g0", state=DeviceState.OK, fault="XID 79 at 2026-01-01T00:00:00Z")


async def seen(store) -> dict[str, tuple[str, str | None]]:
    return {row["id"]: (row["state"], row["taken_by"]) for row in await store.look(devices)}


async def capacity(store) -> dict[str, int]:
    [node] = await store.look(all_nodes)
    return {kind: amount for kind, amount in node.capacity.items() if kind.startswith("gpu")}


async def device_events(store) -> list[str]:
    rows = sorted(await store.rows("node_event"), key=lambda row: row["id"])
    return [row["reason"] for row in rows if row["event"] == "device"]


async def test_a_taken_device_counts_but_is_not_free_until_it_is_left(store):
    await two_jobs(store)
    await store.write(note_devices, "n1", [TAKEN], NOW)
    assert await seen(store) == {"g0": ("taken", "4711 bob"), "g1": ("ok", None)}
    assert await capacity(store) == {"gpu": 2, "gpu:a100": 1, "gpu:v100": 1}
    await store.write(note_devices, "n1", [FREE], NOW + 1)
    assert await seen(store) == {"g0": ("ok", None), "g1": ("ok", None)}
    assert await device_events(store) == ["gpu 0 is taken", "gpu 0 is free of other processes"], "they name no user"


async def test_a_taken_device_is_not_allocated(store):
    one, other = await two_jobs(store)
    await store.write(note_devices, "n1", [TAKEN], NOW)
    assert await placed(store, one, ("g0",)) == 0
    await store.write(note_devices, "n1", [FREE], NOW)
    assert await placed(store, other, ("g0",)) == 1


async def test_what_is_reported_twice_changes_nothing(store):
    await two_jobs(store)
    for _ in range(2):
        await store.write(note_devices, "n1", [TAKEN, msgspec.structs.replace(TAKEN, id="unknown")], NOW)
    assert len(await device_events(store)) == 1
    assert list(await store.read(notes_of, "n1")) == ["g0"]
    await store.write(note_devices, "n9", [TAKEN], NOW)
    assert await store.read(notes_of, "n9") == {}


async def test_an_error_lasts_until_somebody_resumes_the_device(store):
    await two_jobs(store)
    await store.write(note_devices, "n1", [BROKEN], NOW)
    await store.write(note_devices, "n1", [FREE], NOW + 1)
    assert (await seen(store))["g0"] == ("failed", None)
    assert await capacity(store) == {"gpu": 1, "gpu:v100": 1}
    listed = (await store.look(all_nodes))[0].devices
    fresh = [msgspec.structs.replace(device, state=DeviceState.OK) for device in listed]
    await store.add_nodes("n1", devices=fresh, at=NOW + 2)
    assert (await seen(store))["g0"] == ("failed", None), "also after its agent has registered again"
    await store.write(resume_device, DeviceWish(node="n1", device="g0", actor="root", at=NOW + 3))
    assert await seen(store) == {"g0": ("ok", None), "g1": ("ok", None)}
    assert await capacity(store) == {"gpu": 2, "gpu:a100": 1, "gpu:v100": 1}
    assert (await device_events(store))[-1] == "gpu 0 is resumed"
    await store.write(note_devices, "n1", [msgspec.structs.replace(BROKEN, fault="XID 79, later")], NOW + 4)
    assert (await seen(store))["g0"] == ("failed", None)


async def test_only_a_device_with_an_error_is_resumed(store):
    await two_jobs(store)
    await store.write(note_devices, "n1", [TAKEN], NOW)
    for device, code in (("g0", "not_failed"), ("g1", "not_failed"), ("g9", "unknown_device")):
        with pytest.raises(Refused) as refused:
            await store.write(resume_device, DeviceWish(node="n1", device=device, actor="root", at=NOW))
        assert refused.value.code == code
    with pytest.raises(Refused):
        await store.write(resume_device, DeviceWish(node="n9", device="g0", actor="root", at=NOW))


async def test_a_registration_forgets_other_states_and_keeps_errors(store):
    await two_jobs(store)
    broken = msgspec.structs.replace(BROKEN, id="g1")
    await store.write(note_devices, "n1", [TAKEN, broken], NOW)
    kept = await store.write(noted_at_registration, "n1", MIXED)
    assert {device.id: device.state for device in kept} == {"g0": DeviceState.OK, "g1": DeviceState.FAILED}
    assert list(await store.read(notes_of, "n1")) == ["g1"]


def use(allocation, id_="g0", **more):
    return DeviceUse(**{"allocation": allocation, "id": id_, "busy": 3.0, "samples": 6, "peak_bytes": 5} | more)


async def test_uses_of_reports_are_added_up(store):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0",))
    [allocation] = [row["id"] for row in await store.rows("allocation")]
    assert await store.write(add_uses, "n1", [use(allocation, recent=0.5, idle_s=9.0)], NOW) == []
    assert await store.write(add_uses, "n1", [use(allocation, peak_bytes=2, recent=0.1, samples=4)], NOW + 60) == []
    [row] = await store.rows("job_device")
    assert (row["mean_utilisation"], row["recent_utilisation"], row["peak_memory"]) == (0.6, 0.1, 5)
    assert await store.look(recent_use) == {("n1", "g0"): 0.1}
    shown = await store.look(accounting, AccountingFilter())
    assert [(row["gpu_utilisation"], row["gpu_memory"]) for row in shown] == [(0.6, 5), (None, None)]
    assert (row["idle_s"], row["measured_at"]) == (None, NOW + 60)


async def test_uses_that_are_reported_again_count_once(store):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0",))
    [allocation] = [row["id"] for row in await store.rows("allocation")]
    for batch in ("a", "a", "b", "b", "a"):
        assert await store.write(add_uses, "n1", [use(allocation)], NOW, batch) == []
    await store.add_nodes("n1", devices=MIXED, at=NOW + 1)
    await store.write(add_uses, "n1", [use(allocation)], NOW, "a")
    [row] = await store.rows("device_uses")
    assert (row["busy"], row["samples"]) == (9.0, 18), "also after its agent has registered again"
    await store.write(add_uses, "n1", [use(allocation, samples=4)], NOW, "")
    await store.write(add_uses, "n1", [use(allocation, samples=4)], NOW, "")
    [row] = await store.rows("device_uses")
    assert (row["busy"], row["samples"]) == (15.0, 26), "an agent of an older version names no batch"


async def test_uses_of_what_a_job_never_held_have_no_effect(store):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0",))
    [allocation] = [row["id"] for row in await store.rows("allocation")]
    asked = [use(allocation, "g1"), use(allocation + 7)]
    assert await store.write(add_uses, "n1", asked, NOW) == [allocation, allocation + 7]
    assert await store.write(add_uses, "n2", [use(allocation)], NOW) == [allocation]
    [row] = await store.rows("job_device")
    assert row["peak_memory"] is None


async def test_uses_count_after_the_end_and_go_with_the_job(store):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0",))
    await end(store, one, "n1", at=NOW + 5)
    [allocation] = [row["id"] for row in await store.rows("allocation")]
    assert await store.write(add_uses, "n1", [use(allocation)], NOW + 6) == []
    [row] = await store.rows("job_device")
    assert row["mean_utilisation"] == 0.5


async def idle_job(store, *uses, rule=RULE, started=NOW - 9000):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0", "g1"), resources={"vcore": 1000, "gpu": 2}, at=started)
    [taken] = await store.take("n1", at=started)
    [start] = taken.starts
    await store.report("n1", start.allocation, one, "started", at=started)
    await store.write(add_uses, "n1", [use(start.allocation, id_, idle_s=idle_s) for id_, idle_s in uses], NOW)
    before = await store.read(idle_times, [start.allocation])
    return one, start.allocation, await store.write(end_idle, {}, [start.allocation], rule, NOW), before


async def test_a_job_is_idle_if_all_its_devices_are(store):
    one, allocation, ended, times = await idle_job(store, ("g0", 8000.0), ("g1", 7300.0))
    assert (ended, times) == ([one], {allocation: 7300.0})
    assert (await device_events(store))[-1] == f"job {one} has not used its GPUs for 7300 s"
    assert await store.write(end_idle, times, [allocation], RULE, NOW) == [], "once"
    [taken] = await store.take("n1", at=NOW)
    assert taken.cancels == [allocation]
    await store.report("n1", allocation, one, "ended", at=NOW + 1, cause="cancel", signal=15)
    [row] = await store.rows("jobs", id=one)
    assert row["state"] == "failed"
    [event] = [row for row in await store.rows("job_event") if row["job_id"] == one and row["event"] == "fail"]
    assert event["cause"] == "idle"
    [notice] = [row for row in await store.rows("job_event") if row["job_id"] == one and row["event"] == "idle"]
    assert (notice["state"], notice["actor"]) == ("running", "rankd")
    assert notice["cause"] == "its GPUs were not used for 7300 s; it is ended after 7200 s"


async def test_a_device_that_is_reported_idle_for_longer_than_the_time_that_passed_is_not_believed(store):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0",))
    [allocation] = [row["id"] for row in await store.rows("allocation")]
    for number, idle_s in enumerate((500.0, 4000.0, 0.0, 4000.0)):
        await store.write(add_uses, "n1", [use(allocation, idle_s=idle_s)], NOW + 10 * number)
        believed = [500.0, 510.0, 0.0, 10.0][number]
        assert [row["idle_s"] for row in await store.rows("job_device")] == [believed]


@pytest.mark.parametrize("uses", [[("g0", 8000.0)], [("g0", 8000.0), ("g1", None)], [("g0", 8000.0), ("g1", 10.0)]])
async def test_a_job_is_not_idle_if_one_device_is_busy_or_not_known(store, uses):
    _, _, ended, _ = await idle_job(store, *uses)
    assert ended == []


async def test_other_ends_keep_their_cause(store):
    [one, _] = await two_jobs(store)
    await placed(store, one, ("g0",))
    [taken] = await store.take("n1", at=NOW)
    report = Report(allocation=taken.starts[0].allocation, job=one, kind="ended", at=NOW, cause="cancel")
    assert await store.read(with_cause, [("n1", report)]) == [("n1", report)]


async def test_a_job_that_waits_for_a_taken_device_is_told_who_has_it(store):
    _, waits = await two_jobs(store)
    await store.write(note_devices, "n1", [TAKEN, msgspec.structs.replace(TAKEN, id="g1", by="12 carol")], NOW)
    [job] = await store.rows("jobs", id=waits)
    row = ReasonRow(
        queue=job["queue_id"], shape=job["shape"], time_limit_s=-1.0, user="", application=-2,
        reason="resources", fact="no room",
    )  # fmt: skip
    await store.write(save_reasons, [row], None)
    answer = await store.look(why, waits)
    assert [(lack["node"], lack["amounts"], lack["taken"]) for lack in answer["lacks"]] == [
        (
            "n1",
            {"gpu": 1},
            ["gpu 0 is taken by process 4711 of bob", "gpu 1 is taken by process 12 of carol"],
        )
    ]


async def test_who_takes_a_device_stays_known_when_its_agent_registers_again(store):
    await two_jobs(store)
    await store.write(note_devices, "n1", [TAKEN], NOW)
    before = await device_events(store)
    listed = [msgspec.structs.replace(one, state=DeviceState.TAKEN) if one.id == "g0" else one for one in MIXED]
    await store.add_nodes("n1", devices=listed, at=NOW + 1)
    await store.write(note_devices, "n1", [TAKEN], NOW + 2)
    assert (await seen(store))["g0"] == ("taken", "4711 bob")
    assert await device_events(store) == before, "it is no news"
    await store.add_nodes("n1", devices=MIXED, at=NOW + 3)
    assert (await seen(store))["g0"] == ("ok", None)

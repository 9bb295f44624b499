"""Devices: those of nodes, which open allocation holds which one, and that no two hold one."""

import json

import pytest
from builder import NOW
from contract.world import end
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from rankd.core.model.device import AssignedDevice, Device, DeviceState
from rankd.store.feed.occupancy import read_open
from rankd.store.look import why
from rankd.store.look.accounting import accounting
from rankd.store.look.device_list import devices
from rankd.store.look.job_list import jobs
from rankd.store.look.node_list import nodes
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.allocation_device import (
    HeldDevice,
    devices_of,
    devices_of_nodes,
    held_devices,
    insert_devices,
    release_devices,
)
from rankd.store.record.history import Named, prune_jobs
from rankd.store.record.node import read_nodes
from rankd.store.schema.table import allocations, relay_marks
from rankd.wire.message import AccountingFilter, JobFilter

MIXED = [Device(model="v100", id="g1", index=1), Device(model="a100", id="g0", index=0)]
GPU = {"vcore": 1000, "gpu": 1}


async def placed(store, job, held, *, resources=None, at=NOW, node="n1"):
    """The number of allocations that were made: 1, or 0 if it was not possible."""
    [row] = await store.rows("jobs", id=job)
    new = NewAllocation(
        job=job,
        revision=row["revision"],
        nodes=(node,),
        resources=resources or GPU,
        charge_rate=1.0,
        generation=0,
        rank=1,
        devices={node: held} if held else {},
    )
    return await store.write(commit_allocations, [new], 1, at)


async def two_jobs(store, listed=MIXED):
    await store.add_nodes("n1", devices=listed)
    return await store.submit("alice", "bob", resources=GPU)


async def test_a_node_offers_its_devices_in_the_order_of_their_indices(store):
    await store.add_nodes("n1", devices=MIXED, resources={"vcore": 4, "gpu": 9})
    [node] = await store.look(all_nodes)
    assert [device.id for device in node.devices] == ["g0", "g1"]
    assert node.capacity == {"vcore": 4000, "gpu": 2, "gpu:a100": 1, "gpu:v100": 1}


async def test_a_device_is_in_one_open_allocation_at_most(store):
    one, other = await two_jobs(store)
    assert await placed(store, one, ("g0",)) == 1
    assert await placed(store, other, ("g0",)) == 0
    assert await placed(store, other, ("g1",)) == 1
    assert await store.read(held_devices) == {
        1: [HeldDevice("n1", "g0", "a100", 0)],
        2: [HeldDevice("n1", "g1", "v100", 1)],
    }


async def test_the_database_refuses_a_second_holder(store):
    one, other = await two_jobs(store)
    await placed(store, one, ("g0",))
    await placed(store, other, ("g1",))
    with pytest.raises(IntegrityError):
        await store.write(insert_devices, [(2, "n1", "g0", "a100", 0, True, None)])


async def test_a_device_is_free_again_when_its_allocation_ends(store):
    one, other = await two_jobs(store)
    await placed(store, one, ("g0",))
    await end(store, one, "n1")
    assert await store.read(held_devices) == {}
    assert await placed(store, other, ("g0",)) == 1
    assert (await store.read(devices_of, [1, 2]))[1] == [HeldDevice("n1", "g0", "a100", 0)]
    await store.write(release_devices, [2])
    assert await store.read(held_devices) == {}


@pytest.mark.parametrize("state", [DeviceState.TAKEN, DeviceState.FAILED])
async def test_a_device_that_is_not_ok_is_not_allocated(store, state):
    one, _ = await two_jobs(store, [Device(model="a100", id="g0", index=0, state=state)])
    assert await placed(store, one, ("g0",)) == 0


async def test_a_job_with_gpus_needs_devices_on_a_node_that_lists_some(store):
    one, other = await two_jobs(store)
    assert await placed(store, one, ()) == 0
    assert await placed(store, one, (), resources={"vcore": 1000}) == 1
    await store.add_nodes("n1", resources={"vcore": 4, "gpu": 2})
    assert await placed(store, other, ()) == 1
    assert (await store.read(devices_of_nodes, ["n1"])).take(["n1"], {}, uses_devices=True)


async def test_a_node_that_comes_back_with_fewer_devices_loses_no_job_on_the_others(store):
    one, other = await two_jobs(store)
    await placed(store, one, ("g0",))
    await placed(store, other, ("g1",))
    await store.add_nodes("n1", devices=[MIXED[0]])
    assert {row["state"] for row in await store.rows("job")} == {"allocated"}
    assert set(await store.read(held_devices)) == {1, 2}
    assert [(row["job"], row["state"]) for row in await store.look(devices)] == [(one, "gone"), (other, "ok")]


async def test_the_accounting_has_the_models_that_a_job_was_given(store):
    one, other = await two_jobs(store)
    await placed(store, one, ("g0", "g1"), resources={"vcore": 1000, "gpu": 2})
    rows = {row["id"]: row["gpus"] for row in await store.look(accounting, AccountingFilter())}
    assert rows == {one: {"a100": 1, "v100": 1}, other: {}}


async def test_an_agent_gets_the_devices_of_each_start(store):
    one, _ = await two_jobs(store)
    await placed(store, one, ("g0", "g1"), resources={"vcore": 1000, "gpu": 2})
    [taken] = await store.take("n1")
    assert taken.starts[0].devices == [AssignedDevice("g0", "a100", 0), AssignedDevice("g1", "v100", 1)]


async def test_used_amounts_have_the_models(store):
    one, _ = await two_jobs(store)
    await placed(store, one, ("g1",))
    [node], use = await store.read(read_nodes)
    assert node.used == {"vcore": 1000, "gpu": 1, "gpu:v100": 1}
    assert list(use.by_queue.values()) == [node.used]
    [held] = await store.read(lambda connection: list(read_open(connection, [1])))
    assert held.devices == (HeldDevice("n1", "g1", "v100", 1),)


async def test_the_view_shows_who_holds_a_device(store):
    one, _ = await two_jobs(store)
    await placed(store, one, ("g1",))
    found = {row["id"]: (row["index"], row["model"], row["job"], row["user"]) for row in await store.look(devices)}
    assert found == {"g0": (0, "a100", None, None), "g1": (1, "v100", one, "alice")}
    [row] = await store.rows("allocation")
    assert row["devices"] == '{"n1": ["g1"]}'
    [row] = await store.rows("job_device")
    assert (row["job"], row["node"], row["id"], row["model"]) == (one, "n1", "g1", "v100")


async def test_why_counts_the_models_that_others_hold_and_what_is_taken(store):
    listed = [*MIXED, Device(model="a100", id="g2", index=2, state=DeviceState.TAKEN)]
    one, _ = await two_jobs(store, listed)
    await placed(store, one, ("g0",))
    [node] = await store.look(nodes)
    assert node["allocated"] == {"vcore": 1, "gpu": 1, "gpu:a100": 1}
    asked = {"resources": {"gpu": 1, "gpu:a100": 1}, "constraints": None, "exclusive": False}
    lacks = await store.look(why._lacks, "default", asked)
    assert [(lack["node"], lack["amounts"]) for lack in lacks] == [("n1", {"gpu:a100": 1})], "of gpu, the v100 is free"


WHOLE = {"n1": {"vcore": 4000, "memory": 64, "gpu": 2}, "n2": {"vcore": 8000, "memory": 32, "gpu": 0}}


async def whole(store, job, held=WHOLE, at=NOW):
    """An exclusive job of one core gets these whole nodes."""
    [row] = await store.rows("jobs", id=job)
    new = NewAllocation(
        job=job, revision=row["revision"], nodes=tuple(held), resources={"vcore": 1000}, charge_rate=9.0,
        generation=0, rank=1, whole=held,
    )  # fmt: skip
    assert await store.write(commit_allocations, [new], 1, at) == 1


async def test_an_exclusive_job_holds_its_nodes_whole_in_all_that_is_shown(store):
    await store.add_nodes("n1", "n2")
    [job] = await store.submit("alice", resources={"vcore": 1000}, nodes=2, request={"exclusive": True})
    await whole(store, job)
    together = {"vcore": 12, "memory": 96, "gpu": 2}
    found = await store.look(nodes)
    assert [row["allocated"] for row in found] == [
        {"vcore": 4, "memory": 64, "gpu": 2}, {"vcore": 8, "memory": 32, "gpu": 0}
    ]  # fmt: skip
    for name in ("job", "allocation"):
        [row] = await store.rows(name)
        assert json.loads(row["allocated"]) == together
    [row] = await store.rows("node", name="n2")
    assert json.loads(row["allocated"]) == {"vcore": 8, "memory": 32, "gpu": 0}
    [row] = await store.look(jobs, JobFilter())
    assert (row["allocated"], row["cores"]) == (together, 2)
    [row] = await store.look(accounting, AccountingFilter())
    assert row["allocated"] == together


async def test_the_agent_of_a_whole_node_gets_what_it_offers(store):
    await store.add_nodes("n1", "n2")
    [job] = await store.submit("alice", resources={"vcore": 1000}, nodes=2, request={"exclusive": True})
    await whole(store, job)
    first, second = [taken.starts[0] for taken in await store.take("n1", "n2")]
    assert json.loads(bytes(first.resources)) == WHOLE["n1"]
    assert json.loads(bytes(second.resources)) == WHOLE["n2"]
    assert first.whole == second.whole == [4000, 8000]


async def test_a_job_of_one_node_holds_what_it_asked_for(store):
    one, _ = await two_jobs(store)
    await placed(store, one, ("g0",))
    [row] = await store.rows("job", id=one)
    assert row["allocated"] is None
    [taken] = await store.take("n1")
    assert (json.loads(bytes(taken.starts[0].resources)), taken.starts[0].whole) == (GPU, [])


async def test_all_runs_of_a_job_that_was_queued_again_are_accounted_and_stay_in_old_usage(store):
    await store.add_nodes("n1")
    [job] = await store.submit("alice", resources={"vcore": 1000}, request={"exclusive": True})
    await whole(store, job, {"n1": WHOLE["n1"]})
    await end(store, job, "n1", at=NOW + 5, exit_status=None, cause="lost")
    [row] = await store.look(accounting, AccountingFilter())
    assert (row["state"], row["earlier_core_s"], row["earlier_gpu_s"]) == ("pending", 20.0, 10.0)
    await whole(store, job, {"n1": WHOLE["n1"]}, at=NOW + 10)
    await end(store, job, "n1", at=NOW + 15)
    [row] = await store.look(accounting, AccountingFilter())
    assert (row["state"], row["earlier_core_s"], row["earlier_gpu_s"]) == ("completed", 20.0, 10.0)
    await prune_all(store)
    [row] = await store.rows("usage_day")
    assert (row["core_s"], row["gpu_s"], row["charge"]) == (40.0, 20.0, 90.0)


async def prune_all(store):
    """All jobs are old, charged and published."""
    await store.write(lambda connection: connection.execute(update(allocations).values(charged=True)))
    mark = relay_marks.insert().values(name="job_events", event_id=99)
    await store.write(lambda connection: connection.execute(mark))
    await store.write(prune_jobs, 0, NOW + 1e6, Named(frozenset(), 0))

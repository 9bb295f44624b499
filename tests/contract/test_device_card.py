"""A card that a job holds stays its own, by id, index and files, whatever its node lists meanwhile."""

import itertools
import random

from builder import NOW
from contract.test_device import GPU, placed, two_jobs
from contract.world import end

from rankd.core.model.device import DeviceState, ListedDevice
from rankd.store.look.device_list import devices
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.device_fault import cards_of, devices_now
from rankd.store.record.device_note import free_cards, listed_devices, write_devices


def card(id_, index, path=None):
    return ListedDevice(model="a100", id=id_, index=index, path=(f"/dev/nvidia{index if path is None else path}",))


async def states(store):
    return {row["id"]: (row["state"], row["job"], row["reason"]) for row in await store.look(devices)}


async def test_a_card_with_another_id_is_not_given_to_another_job(store):
    one, other = await two_jobs(store, [card("g0", 0), card("g1", 1)])
    await placed(store, one, ("g0",))
    await store.add_nodes("n1", devices=[card("new0", 0), card("new1", 1)], at=NOW + 1)
    found = await states(store)
    assert found["new0"] == ("taken", None, f"job {one} holds this card as g0")
    assert await placed(store, other, ("new0",)) == 0
    assert await placed(store, other, ("new1",)) == 1
    await end(store, one, "n1", at=NOW + 2)
    assert (await states(store))["new0"] == ("ok", None, None)
    [event] = [row for row in await store.rows("node_event") if row["event"] == "device"]
    assert event["reason"] == "gpu 0 is held by no job any more", "the scheduler learns it"


async def test_two_ids_that_change_places_are_both_kept(store):
    one, other = await two_jobs(store, [card("g0", 0), card("g1", 1)])
    await placed(store, one, ("g0",))
    await store.add_nodes("n1", devices=[card("g1", 0), card("g0", 1)], at=NOW + 1)
    assert await placed(store, other, ("g0",)) == 0
    assert await placed(store, other, ("g1",)) == 0


async def test_a_job_gets_no_model_that_it_did_not_ask_for_when_ids_change_places(store):
    one, _ = await two_jobs(store, [card("g0", 0)])
    asked = GPU | {"gpu:v100": 1}
    assert await placed(store, one, ("g0",), resources=asked) == 0
    assert await placed(store, one, ("g0",), resources=GPU | {"gpu:a100": 1}) == 1


async def test_an_agent_gets_the_files_of_the_devices_as_they_were_allocated(store):
    one, _ = await two_jobs(store, [card("g0", 0)])
    await placed(store, one, ("g0",))
    [taken] = await store.take("n1")
    assert [device.path for device in taken.starts[0].devices] == [("/dev/nvidia0",)]


async def test_over_random_registrations_no_card_is_held_twice(store):
    """Each node's list gets other ids, indices and files, while jobs start and end."""
    chance, names = random.Random(17), [f"n{number}" for number in range(12)]
    jobs = iter(await store.submit(*["alice"] * 200, resources=GPU))
    n_blocked = n_started = 0
    for name in names:
        running = []
        for step in range(6):
            at = NOW + step
            listed = random_list(chance)
            await store.add_nodes(name, devices=listed, at=at)
            n_blocked += sum(bool(device.blocked) for device in await store.read(listed_devices, name))
            for device in listed:
                if chance.random() < 0.6:
                    job = next(jobs)
                    if await placed(store, job, (device.id,), at=at, node=name):
                        running.append(job)
                        n_started += 1
            held = await store.read(cards_of, name)
            assert len(held) == len(running)
            for first, second in itertools.combinations(held, 2):
                assert first.id != second.id
                assert first.index != second.index
                assert not set(first.path) & set(second.path)
            for job in [job for job in running if chance.random() < 0.4]:
                running.remove(job)
                await ended(store, job, name, at)
        for job in running:
            await ended(store, job, name, NOW + 9)
        assert all(device.state is DeviceState.OK for device in await store.read(listed_devices, name))
    assert n_blocked > 20
    assert n_started > 40


async def ended(store, job, node, at):
    [row] = await store.rows("allocations", job_id=job)
    await store.report(node, row["id"], job, "ended", at=at, exit_status=0)


def random_list(chance):
    """One to four cards, each with an id, an index and a file that no other one has."""
    number = chance.randint(1, 4)
    ids, indices, files = (chance.sample(range(6), number) for _ in range(3))
    return [card(f"g{id_}", index, file) for id_, index, file in zip(ids, indices, files, strict=True)]


async def test_what_is_written_again_stays_as_it_is(store):
    one, _ = await two_jobs(store, [card("g0", 0)])
    await placed(store, one, ("g0",))
    await store.add_nodes("n1", devices=[card("new", 0)], at=NOW + 1)
    listed = await store.read(listed_devices, "n1")
    assert await store.read(devices_now, "n1", listed) == list(listed)
    assert await store.write(write_devices, "n1", listed) == list(listed)
    await store.write(free_cards, [one + 7], NOW)
    assert [device.state for device in (await store.look(all_nodes))[0].devices] == ["taken"]

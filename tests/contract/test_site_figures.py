"""The figures of the site: what they count, on every engine."""

from contract.arrays import submit_array

from rankd.store.look.site_figures import site_figures


async def test_the_world_is_counted(world):
    found = await world.look(site_figures, 1)
    jobs = {(row["state"], row["queue"]): row["jobs"] for row in found.jobs}
    assert sum(jobs.values()) >= 3
    assert {row["reason"] for row in found.jobs if row["state"] == "pending"}
    assert len(found.users) == 1, "the number of named users is bounded"
    assert {row["state"] for row in found.nodes}
    assert found.generation["number"] > 0
    assert {row["name"] for row in found.roles}


async def test_an_array_counts_as_its_pending_tasks(world):
    before = sum(row["jobs"] for row in (await world.look(site_figures, 0)).jobs)
    await submit_array(world, "0-9")
    after = await world.look(site_figures, 5)
    assert after.outbox["events"] > 0, "nobody publishes here"
    assert sum(row["jobs"] for row in after.jobs) == before + 10
    assert sum(row["jobs"] for row in after.jobs if row["state"] == "pending") == sum(u["jobs"] for u in after.users)


async def test_no_user_is_named_without_leave(world):
    assert (await world.look(site_figures, 0)).users == []

"""Who holds the roles, as `rankd diag` shows it; and how many jobs are new for a prioritizer that takes over."""

from builder import NOW

from rankd.store.feed.job import load_jobs, new_jobs
from rankd.store.look.service_list import role_holders


async def test_who_holds_each_role(store):
    database = store.database
    await database.take_role("scheduler", NOW)
    [role] = await database.look(lambda c: role_holders(c.connection))
    assert (role["name"], role["epoch"], role["resigned_at"], role["takeover_s"]) == ("scheduler", 1, None, None)
    assert role["alive_at"] >= role["since"] > 0


async def test_new_jobs_are_those_that_no_generation_has(store):
    await store.configure()
    assert await store.read(new_jobs) == 0
    await store.submit("alice")
    await store.submit("alice", held=True)
    assert await store.read(new_jobs) == 1
    assert (await store.read(load_jobs)).new_jobs == 1

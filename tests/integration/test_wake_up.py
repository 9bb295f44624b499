"""No wake-up is lost: what happens between any two steps of a pass or a cycle is seen without a further event.

The database lets something happen before the first, the second, … of all reads and writes that a pass, a delta
generation and a cycle make; after each, what the services do by themselves must be enough.
"""

from __future__ import annotations

import builder
import pytest
from integration.stage import NOW, a_cluster

from rankd.store.engine.sqlite import SqliteDatabase


class Turnstile(SqliteDatabase):
    """Calls ``happen`` before its operation number ``at``."""

    at = 0
    passed = 0
    happen = None

    async def _pass(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            self.at = 0  # what happens goes through here, too
            await self.happen()

    async def write(self, work, *, role=None):
        await self._pass()
        return await super().write(work, role=role)

    async def read(self, work):
        await self._pass()
        return await super().read(work)

    async def read_in_thread(self, work):
        await self._pass()
        return await super().read_in_thread(work)


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def settle(prioritizer, scheduler, now: float, *, by_full_pass: bool) -> None:
    """What both do next, since time passes; nothing else happens."""
    if by_full_pass:
        await prioritizer.run_once(now)
    while await prioritizer.insert_once(now):
        pass
    while await scheduler.run_once(now):
        pass


async def at_every_step(cluster, begin, happen, done, *, by_full_pass: bool) -> int:
    """Rounds of a pass, deltas and a cycle, in each of which ``happen`` comes a step later; how many there were."""
    prioritizer, scheduler, database = cluster.prioritizer(), cluster.scheduler(), cluster.database
    await settle(prioritizer, scheduler, NOW, by_full_pass=True)
    database.happen = happen
    for step in range(1, 200):
        await begin()
        database.passed, database.at = 0, step
        now = NOW + step
        await prioritizer.run_once(now)
        while await prioritizer.insert_once(now):
            pass
        await scheduler.run_once(now)
        if database.at:  # a round has no more steps than this
            return step - 1
        await settle(prioritizer, scheduler, now + 0.5, by_full_pass=by_full_pass)
        assert done(), f"what happened before step {step} was not seen"
    raise AssertionError("a round has no end")


def pending(cluster) -> list[int]:
    return [job for job, state in cluster.states().items() if state == "pending"]


@pytest.mark.parametrize("by_full_pass", [True, False])
async def test_a_job_starts_whenever_it_is_submitted(broker, tmp_path, by_full_pass):
    async with a_cluster(tmp_path, broker.url, kind=Turnstile) as cluster:
        await cluster.add_node("n1", vcore=1_000)

        async def submit() -> None:
            await cluster.submit(builder.accepted())

        n_steps = await at_every_step(cluster, submit, submit, lambda: not pending(cluster), by_full_pass=by_full_pass)
        assert n_steps >= 10
        assert len(cluster.states()) == 2 * n_steps + 1


@pytest.mark.parametrize("by_full_pass", [True, False])
async def test_a_job_starts_whenever_the_one_before_it_ends(broker, tmp_path, by_full_pass):
    async with a_cluster(tmp_path, broker.url, kind=Turnstile) as cluster:
        await cluster.add_node("n1", vcore=1)
        await cluster.submit(builder.accepted())

        async def submit() -> None:
            await cluster.submit(builder.accepted())

        async def end() -> None:
            running = next(job for job, state in cluster.states().items() if state == "allocated")
            await cluster.end(running)

        n_steps = await at_every_step(cluster, submit, end, lambda: not pending(cluster), by_full_pass=by_full_pass)
        assert n_steps >= 10


async def test_a_job_starts_whenever_a_node_joins(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, kind=Turnstile) as cluster:

        async def submit() -> None:
            await cluster.submit(builder.accepted())

        async def join() -> None:
            await cluster.add_node(f"n{len(cluster.states())}", vcore=1)

        n_steps = await at_every_step(cluster, submit, join, lambda: not pending(cluster), by_full_pass=False)
        assert n_steps >= 10

"""Nodes that come back with other resources, and silence by a clock that was set."""

from __future__ import annotations

import builder
import pytest
from integration.stage import NOW, a_cluster

from rankd.core.model.quantity import VCORE
from rankd.store.record.node import silent_nodes, take_down


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def cycle(cluster, prioritizer, scheduler, at: float) -> dict[int, str]:
    await prioritizer.run_once(at)
    await scheduler.run_once(at)
    return cluster.states()


async def test_a_node_that_shrank_takes_nothing_until_there_is_room_again(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=4)
        two = {VCORE: 2000}
        first, second = await cluster.submit(builder.accepted(resources=two), builder.accepted(resources=two))
        assert await cycle(cluster, prioritizer, scheduler, NOW + 1) == {first: "allocated", second: "allocated"}
        await cluster.add_node("n1", vcore=2, at=NOW + 2)
        [third] = await cluster.submit(builder.accepted(resources={VCORE: 1000}))
        assert (await cycle(cluster, prioritizer, scheduler, NOW + 3))[third] == "pending"
        await cluster.end(first, at=NOW + 4)
        assert (await cycle(cluster, prioritizer, scheduler, NOW + 5))[third] == "pending"
        await cluster.end(second, at=NOW + 6)
        assert (await cycle(cluster, prioritizer, scheduler, NOW + 7))[third] == "allocated"


async def test_a_node_that_grew_takes_more_at_once(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=2)
        [job] = await cluster.submit(builder.accepted(resources={VCORE: 4000}))
        assert (await cycle(cluster, prioritizer, scheduler, NOW + 1))[job] == "pending"
        assert cluster.rows("SELECT reason FROM job") == [("no node fits",)]
        await cluster.add_node("n1", vcore=4, at=NOW + 2)
        await scheduler.run_once(NOW + 2)
        assert cluster.states()[job] == "allocated"


@pytest.mark.parametrize(
    ("now", "silent"), [(NOW, []), (NOW + 60, []), (NOW + 61, ["n1"]), (NOW - 60, []), (NOW - 3600, ["n1"])]
)
async def test_a_sign_of_life_from_the_future_counts_no_longer_than_any_other(broker, tmp_path, now, silent):
    """The clock was set back since: else the node would never be given up."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.add_node("n1")
        assert await cluster.database.read(lambda c: silent_nodes(c, now, 60)) == silent


async def test_a_node_whose_agent_has_stopped_is_silent_only_while_it_has_jobs(broker, tmp_path):
    """Its jobs run on and wait for the next agent; without jobs it may stay away for as long as it likes."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        for node in ("n1", "n2"):
            await cluster.add_node(node, vcore=4)
        [job] = await cluster.submit(builder.accepted(resources={VCORE: 1000}))
        assert (await cycle(cluster, prioritizer, scheduler, NOW + 1))[job] == "allocated"
        [(busy,)] = cluster.rows("SELECT node FROM allocation_nodes")
        await cluster.database.write(lambda c: take_down(c, ["n1", "n2"], NOW + 30))
        for now, silent in ((NOW + 90, []), (NOW + 91, [busy])):
            assert await cluster.database.read(lambda c, now=now: silent_nodes(c, now, 60)) == silent

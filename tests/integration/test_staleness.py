"""The scheduler without a prioritizer: after ``stale_after_s`` it goes on with the last generation, and says so."""

from __future__ import annotations

import json

import builder
import pytest
from integration.stage import NOW, a_cluster, connected, rows, running, write_config

from rankd.core.change import job_action
from rankd.core.model.job import Dependency
from rankd.core.model.queue import QueueProperties
from rankd.core.model.setting import SchedulingSettings
from rankd.services.scheduler.service import SchedulerOptions, run

AFTER_S = 30.0


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def look(scheduler, at: float) -> None:
    while await scheduler.run_once(at):
        pass


def started(cluster) -> list[int]:
    """Jobs in the order in which they got nodes."""
    return [job for (job,) in cluster.rows("SELECT job_id FROM allocations ORDER BY id")]


async def test_without_any_generation_jobs_start_as_submitted_after_a_while(broker, tmp_path):
    """Not those that are held, or wait for others."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        scheduler = cluster.scheduler()
        await cluster.add_node("n1", vcore=3)
        after = builder.accepted(request={"depends_on": [Dependency(type="afterok", job=1)]})
        await cluster.submit(builder.accepted(), builder.accepted(held=True), after, builder.accepted(urgency=30))
        await look(scheduler, NOW)
        await look(scheduler, NOW + AFTER_S - 1)
        assert started(cluster) == []
        await look(scheduler, NOW + AFTER_S)
        assert started(cluster) == [1, 4]
        assert cluster.rows("SELECT job_id, generation, rank FROM allocations") == [(1, 0, 1), (4, 0, 2)]
        await cluster.submit(builder.accepted())  # starts without waiting again
        await look(scheduler, NOW + AFTER_S + 1)
        assert started(cluster) == [1, 4, 5]


async def test_newer_jobs_go_behind_the_last_generation_until_another_comes(broker, tmp_path):
    root = builder.parent("root", builder.leaf("root.default"), builder.leaf("root.other", max={"vcore": 9000}))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        low, high = builder.accepted(urgency=1), builder.accepted(urgency=30)
        other = builder.accepted(queue="root.other", urgency=30)
        await cluster.submit(low, builder.accepted(held=True), low)
        await prioritizer.run_once(NOW)
        await look(scheduler, NOW)
        await cluster.submit(other, high, other)
        await cluster.act(job_action.release, 2)
        await look(scheduler, NOW + AFTER_S)
        await cluster.add_node("n1", vcore=5)
        await look(scheduler, NOW + AFTER_S + 1)
        assert started(cluster) == [1, 3, 2, 4, 5]
        assert [rank for (rank,) in cluster.rows("SELECT rank FROM allocations")] == [1, 2, 3, 4, 5]
        await cluster.submit(low, high)
        await prioritizer.run_once(NOW + AFTER_S + 2)
        await cluster.add_node("n2", vcore=2)
        await look(scheduler, NOW + AFTER_S + 3)
        assert set(started(cluster)[5:]) == {6, 8}
        await cluster.submit(high)  # and again a job waits for the generation that holds it
        await look(scheduler, NOW + AFTER_S + 4)
        await cluster.add_node("n3", vcore=1)
        await look(scheduler, NOW + AFTER_S + 5)
        assert started(cluster)[7:] == [7]


async def test_a_leaf_that_lets_applications_in_lets_no_other_in_meanwhile(broker, tmp_path):
    leaf = builder.leaf("root.default", properties=QueueProperties(sort_policy="stateaware"))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=builder.parent("root", leaf))) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        named = {name: builder.accepted(request={"application": name}) for name in ("a", "b", "c")}
        await cluster.submit(named["a"], named["b"])
        await prioritizer.run_once(NOW)
        await cluster.submit(named["c"], named["a"], builder.accepted())
        await look(scheduler, NOW)
        await look(scheduler, NOW + AFTER_S)
        await cluster.add_node("n1", vcore=9)
        await look(scheduler, NOW + AFTER_S)
        assert started(cluster) == [1, 4, 5]


async def test_a_clock_that_is_set_back_does_not_keep_the_scheduler_waiting(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        scheduler = cluster.scheduler()
        await cluster.add_node("n1")
        await cluster.submit(builder.accepted())
        await look(scheduler, NOW)
        await look(scheduler, NOW - 1000)
        assert started(cluster) == []
        await look(scheduler, NOW - 1000 + AFTER_S)
        assert started(cluster) == [1]


async def test_the_service_goes_on_alone_and_says_so(broker, tmp_path):
    config = write_config(tmp_path / "config")
    text = (config / "rankd.toml").read_text()
    (config / "rankd.toml").write_text(text.replace("[node]", "[scheduling]\nstale_after_s = 0.2\n[node]"))
    options = SchedulerOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=config)
    configuration = builder.configuration(scheduling=SchedulingSettings(stale_after_s=0.2))
    async with (
        a_cluster(tmp_path, broker.url, configuration, roles=("prioritizer",)) as cluster,
        connected(broker.url) as client,
    ):
        said: list[dict] = []

        async def keep(message) -> None:
            said.append(json.loads(message.data))

        await client.connection.subscribe("rankd.v1.event.scheduler", cb=keep)
        await client.connection.flush()
        await cluster.add_node("n1")
        async with running(run, options):
            await cluster.submit(builder.accepted())
            await client.until(lambda: cluster.states() == {1: "allocated"})
            prioritizer = cluster.prioritizer()
            await prioritizer.run_once(NOW)
            await client.until(lambda: len(said) > 1)
    assert [(event["event"], event["generation"]) for event in said[:2]] == [("stale", 0), ("fresh", 1)]
    assert rows(tmp_path / "rankd.db", "SELECT generation FROM allocations") == [(0,)]

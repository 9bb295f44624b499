"""The scheduler on a real database and a real broker, one look at a time; the test plays users and nodes."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import builder
import pytest
from integration.stage import NOW, PATIENCE_S, a_cluster, connected, running, write_config

from rankd.core.model.node import NodeState
from rankd.services.scheduler import SchedulerOptions, run
from rankd.store import job_action
from rankd.store.allocation import unpublished
from rankd.store.lock import FileLock


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def schedule(prioritizer, scheduler, at: float = NOW) -> None:
    """A pass, and looks until there is nothing more to start."""
    await prioritizer.run_once(at)
    while await scheduler.run_once(at):
        pass


def nodes_of(cluster) -> dict[int, list[str]]:
    return {job: json.loads(nodes) for job, nodes in cluster.rows("SELECT job_id, nodes FROM allocations ORDER BY id")}


def reasons(cluster) -> dict[int, str]:
    return dict(cluster.rows("SELECT id, reason FROM job WHERE reason IS NOT NULL"))


# --- triggers -----------------------------------------------------------------------------------------------


async def test_a_generation_without_new_jobs_starts_no_cycle(broker, tmp_path):
    """Room that nobody announced: any cycle would use it, so none that starts nothing goes unseen."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=1)
        await cluster.submit(builder.accepted(), builder.accepted())
        await schedule(prioritizer, scheduler)
        await cluster.database.write(lambda c: c.exec_driver_sql("""UPDATE nodes SET capacity = '{"vcore": 8000}'"""))
        for later in range(1, 4):
            await schedule(prioritizer, scheduler, NOW + later)
            assert cluster.states() == {1: "allocated", 2: "pending"}
        await cluster.submit(builder.accepted())
        assert not await scheduler.run_once(NOW + 4)  # a submission alone is none: the generation that holds it is
        await schedule(prioritizer, scheduler, NOW + 5)
        assert set(cluster.states().values()) == {"allocated"}
        assert cluster.rows("SELECT job_id, cycle, generation FROM allocations WHERE id > 1") == [(2, 2, 5), (3, 2, 5)]


async def test_ended_jobs_released_jobs_and_joining_nodes_start_one(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        first, second, held = await cluster.submit(builder.accepted(), builder.accepted(), builder.accepted(held=True))
        await schedule(prioritizer, scheduler)
        assert reasons(cluster) == {first: "no node fits", second: "no node fits", held: "held"}
        await cluster.add_node("n1", vcore=1)
        assert await scheduler.run_once(NOW)
        assert cluster.states()[first] == "allocated"
        await cluster.end(first)
        assert await scheduler.run_once(NOW)
        assert cluster.states()[second] == "allocated"
        await cluster.add_node("n2", vcore=1)
        await cluster.act(job_action.release, held)
        await schedule(prioritizer, scheduler, NOW + 1)
        assert nodes_of(cluster) == {first: ["n1"], second: ["n1"], held: ["n2"]}


@pytest.mark.parametrize("yields", range(0, 40, 3))
async def test_no_wake_up_is_lost_whenever_the_job_comes(broker, tmp_path, yields):
    """A job is submitted and ranked while a look is under way; looks without any further event start it."""
    async with a_cluster(tmp_path, broker.url) as cluster, asyncio.TaskGroup() as group:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=8)
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW)
        looking = group.create_task(scheduler.run_once(NOW))
        for _ in range(yields):
            await asyncio.sleep(0)
        await cluster.submit(builder.accepted())
        await prioritizer.run_once(NOW + 1)
        await looking
        while await scheduler.run_once(NOW + 2):
            pass
        assert cluster.states() == {1: "allocated", 2: "allocated"}


async def test_a_service_that_hears_no_hint_looks_by_itself(broker, tmp_path):
    """What the test writes is announced to nobody."""
    options = SchedulerOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=write_config(tmp_path / "config"))
    async with a_cluster(tmp_path, broker.url, roles=("prioritizer",)) as cluster, connected(broker.url) as client:
        await cluster.add_node("n1")
        async with running(run, options):
            await cluster.submit(builder.accepted())
            broken = cluster.prioritizer()
            broken._announce = lambda _ranking: asyncio.sleep(0)
            await broken.run_once(NOW)
            await client.until(lambda: cluster.states() == {1: "allocated"})


# --- commits ------------------------------------------------------------------------------------------------

CANCEL = "UPDATE jobs SET state = 'cancelled', revision = 9, eligible_at = NULL WHERE id = 1"
HOLD = "UPDATE jobs SET held = 1, revision = 9, eligible_at = NULL WHERE id = 1"
DRAIN = "UPDATE nodes SET state = 'draining' WHERE name = 'n1'"


@pytest.mark.parametrize("change", [CANCEL, HOLD, DRAIN])
async def test_what_changes_between_snapshot_and_commit_is_not_allocated(broker, tmp_path, change):
    async with a_cluster(tmp_path, broker.url) as cluster, asyncio.TaskGroup() as group:
        scheduler, lock = cluster.scheduler(), FileLock(tmp_path / "rankd.db.lock")
        await cluster.add_node("n1", vcore=1)
        await cluster.submit(builder.accepted())
        await cluster.prioritizer().run_once(NOW)
        with lock.held():
            looking = group.create_task(scheduler.run_once(NOW))
            await scheduler._to_publish.wait(PATIENCE_S)  # set between the snapshot and the commit, which waits for us
            write(tmp_path, change)
        lock.close()
        assert not await looking
        assert cluster.rows("SELECT * FROM allocations") == []
        assert not await scheduler.run_once(NOW + 1)
        assert cluster.rows("SELECT count(*) FROM job_events") == [(1,)]


def write(tmp_path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "rankd.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


async def test_quotas_hold_and_say_so(broker, tmp_path):
    root = builder.parent("root", builder.leaf("root.default"), builder.leaf("root.small", max={"vcore": 2000}))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=8)
        await cluster.submit(*[builder.accepted(queue="root.small") for _ in range(3)], builder.accepted())
        await schedule(prioritizer, scheduler)
        assert cluster.states() == {1: "allocated", 2: "allocated", 3: "pending", 4: "allocated"}
        assert reasons(cluster) == {3: "queue quota"}
        await cluster.end(1)
        await schedule(prioritizer, scheduler)
        assert cluster.states()[3] == "allocated"
        assert reasons(cluster) == {}


async def test_a_draining_node_gets_nothing_also_after_its_jobs_ended(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=1)
        await cluster.submit(builder.accepted())
        await schedule(prioritizer, scheduler)
        await cluster.set_node("n1", NodeState.DRAINING)
        await cluster.submit(builder.accepted())
        await schedule(prioritizer, scheduler, NOW + 1)
        await cluster.end(1)
        await schedule(prioritizer, scheduler, NOW + 2)
        assert cluster.states() == {1: "completed", 2: "pending"}
        await cluster.set_node("n1", NodeState.UP)
        assert await scheduler.run_once(NOW + 3)
        assert nodes_of(cluster)[2] == ["n1"]


async def test_a_gang_gets_all_its_nodes_or_none(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=1)
        await cluster.submit(builder.accepted(nodes=2))
        await schedule(prioritizer, scheduler)
        assert cluster.states() == {1: "pending"}
        await cluster.add_node("n2", vcore=1)
        await scheduler.run_once(NOW)
        assert nodes_of(cluster) == {1: ["n1", "n2"]}
        assert cluster.rows("SELECT charge_rate FROM allocations") == [(2.0,)]
        await scheduler.publish_once()
        starts = {subject.split(".")[3]: message["starts"][0] for subject, message in await allocations(cluster)}
        assert {node: start["rank"] for node, start in starts.items()} == {"n1": 0, "n2": 1}
        assert [start["nodes"] for start in starts.values()] == [["n1", "n2"]] * 2


async def test_reasons_that_a_predecessor_left_do_not_stay(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer = cluster.prioritizer()
        await cluster.submit(builder.accepted())
        await schedule(prioritizer, cluster.scheduler())
        assert reasons(cluster) == {1: "no node fits"}
        await cluster.add_node("n1", vcore=1)
        await cluster.act(job_action.cancel, 1)
        await cluster.scheduler().run_once(NOW)
        assert cluster.rows("SELECT * FROM wait_reasons") == []


# --- publication --------------------------------------------------------------------------------------------


WAITING = "SELECT 1 FROM allocations WHERE published = 0"


async def allocations(cluster) -> list[tuple[str, dict]]:
    """What is in the stream: (subject, message)."""
    stream = cluster.bus.jetstream
    last = (await stream.stream_info("RANKD_ALLOCATIONS")).state.last_seq
    stored = [await stream.get_msg("RANKD_ALLOCATIONS", number) for number in range(1, last + 1)]
    return [(message.subject, json.loads(message.data)) for message in stored]


async def test_allocations_are_published_once_although_the_scheduler_dies_before_it_notes_it(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=8)
        await cluster.submit(builder.accepted(), builder.accepted())
        await schedule(prioritizer, scheduler)
        await scheduler._publish((await cluster.database.read(unpublished)).starts)  # and dies
        await cluster.submit(builder.accepted())
        scheduler = cluster.scheduler()
        await schedule(prioritizer, scheduler, NOW + 1)
        await scheduler.publish_once()
        await scheduler.publish_once()
        sent = [[start["allocation"] for start in message["starts"]] for _, message in await allocations(cluster)]
        assert sent == [[1, 2], [3]]
        assert cluster.rows(WAITING) == []


async def test_allocations_reach_the_stream_although_the_broker_was_killed(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster, asyncio.timeout(PATIENCE_S):
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=8)
        await cluster.submit(builder.accepted())
        broker.kill()
        await prioritizer.run_once(NOW)
        await scheduler.run_once(NOW)
        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(scheduler.publish_for_ever())
            await cluster.submit(builder.accepted())
            await prioritizer.run_once(NOW + 1)
            await scheduler.run_once(NOW + 1)
            broker.start()
            while await cluster.database.read(lambda c: c.exec_driver_sql(WAITING).all()):
                pass
            publishing.cancel()
        sent = [start["job"] for _, message in await allocations(cluster) for start in message["starts"]]
        assert sent == [1, 2]


async def test_large_jobs_that_start_together_are_sent_in_messages_that_the_broker_takes(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=20)
        large = builder.accepted(request={"env": {"X": "x" * 200_000}})
        await cluster.submit(*[large] * 10)
        await schedule(prioritizer, scheduler)
        await scheduler.publish_once()
        messages = await allocations(cluster)
        assert [start["job"] for _, message in messages for start in message["starts"]] == list(range(1, 11))
        assert cluster.rows(WAITING) == []


async def test_wishes_to_end_are_published_once_each(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=8)
        await cluster.submit(*[builder.accepted()] * 4)
        await schedule(prioritizer, scheduler)
        await scheduler.publish_once()
        await cluster.act(job_action.cancel, 1, 2, 4)
        await scheduler._publish((await cluster.database.read(unpublished)).cancels)  # and dies
        await cluster.end(2)
        await cluster.act(job_action.cancel, 3)
        scheduler = cluster.scheduler()
        await scheduler.publish_once()
        await scheduler.publish_once()
        wishes = [message["cancels"] for _, message in await allocations(cluster) if message.get("cancels")]
        assert wishes == [[1, 2, 4], [1, 3, 4]]

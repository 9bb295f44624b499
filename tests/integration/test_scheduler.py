"""The scheduler on a real database and a real broker, one look at a time; the test plays users and nodes."""

from __future__ import annotations

import asyncio
import json

import builder
import pytest
from integration.conftest import Broker
from integration.stage import NOW, PATIENCE_S, a_cluster, connected, running, write_config
from watch import comes

from rankd.bus.connection import Bus
from rankd.core.change import job_action
from rankd.core.instant import shown_instant
from rankd.core.model.node import NodeState
from rankd.core.model.queue import Limit, QueueProperties
from rankd.core.model.setting import SchedulingSettings
from rankd.services.scheduler.service import SchedulerOptions, run
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.lock import FileLock
from rankd.store.record.delivery import Ask, give
from rankd.wire.message import Report


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
        await cluster.add_node("n1", vcore=2)
        await cluster.submit(builder.accepted(resources={"vcore": 2000}), builder.accepted())
        await schedule(prioritizer, scheduler)
        await cluster.database.write(lambda c: c.exec_driver_sql("UPDATE allocations SET ended_at = 1"))
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


@pytest.fixture
async def deaf(tmp_path):
    """A bus that no service listens to."""
    elsewhere = Broker(tmp_path / "elsewhere")
    elsewhere.start()
    async with Bus(elsewhere.url, "test") as bus:
        yield bus
    elsewhere.kill()


async def test_a_service_that_hears_no_hint_looks_by_itself(broker, tmp_path, deaf):
    """What the test writes is announced to nobody."""
    options = SchedulerOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=write_config(tmp_path / "config"))
    async with a_cluster(tmp_path, broker.url, roles=("prioritizer",)) as cluster, connected(broker.url) as client:
        await cluster.add_node("n1")
        async with running(run, options):
            await cluster.submit(builder.accepted())
            cluster.bus = deaf
            await cluster.prioritizer().run_once(NOW)
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
            await asyncio.to_thread(comes, lambda: scheduler._source.order.generation)  # the commit waits for us
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
        starts = {node: (await take(cluster, node)).starts[0] for node in ("n1", "n2")}
        assert {node: start.rank for node, start in starts.items()} == {"n1": 0, "n2": 1}
        assert [json.loads(bytes(start.nodes)) for start in starts.values()] == [["n1", "n2"]] * 2


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


# --- hints --------------------------------------------------------------------------------------------------


async def test_nodes_are_told_at_once_and_again_until_they_have_taken_it(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        for name in ("n1", "n2"):
            await cluster.add_node(name, vcore=2)
        heard = await cluster.bus.client.subscribe("rankd.v1.node.*.allocation")
        await cluster.submit(*[builder.accepted()] * 4)
        await schedule(prioritizer, scheduler)
        assert sorted(await scheduler.nodes.run_once(0.0)) == ["n1", "n2"]
        assert (await heard.next_msg(PATIENCE_S)).data == b"{}"
        assert await scheduler.nodes.run_once(0.5) == []
        await take(cluster, "n1")
        assert await scheduler.nodes.run_once(1.0) == ["n2"]
        assert await cluster.scheduler().nodes.run_once(0.0) == ["n2"]  # one that begins knows nothing but the records
        await take(cluster, "n2")
        assert await scheduler.nodes.run_once(100.0) == []
        await cluster.act(job_action.cancel, 1)
        assert len(await scheduler.nodes.run_once(100.0)) == 1


async def take(cluster, node: str):
    ask = Ask(node=node, agent=node, known=None)
    return (await cluster.database.write(lambda c: give(c, [ask], 3, NOW)))[0].answer


# --- backfill and limits ------------------------------------------------------------------------------------


async def start(cluster, job: int, at: float) -> None:
    """Its nodes report that the job has begun."""
    [(allocation, nodes)] = cluster.rows("SELECT id, nodes FROM allocations WHERE job_id = ?", job)
    began = Report(allocation=allocation, job=job, kind="started", at=at)
    await cluster.report(*[(node, began) for node in json.loads(nodes)], at=at)


RESERVED = "SELECT job_id, nodes, starts_at FROM reservations"


async def test_a_wide_job_gets_a_reservation_that_narrow_ones_do_not_delay(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        for name in ("n1", "n2"):
            await cluster.add_node(name, vcore=1)
        await cluster.submit(builder.accepted(request={"time_limit_s": 100.0}))
        await schedule(prioritizer, scheduler)
        await start(cluster, 1, NOW + 10)
        wide = builder.accepted(nodes=2, request={"time_limit_s": 50.0})
        long, short = (builder.accepted(request={"time_limit_s": limit}) for limit in (101.0, 90.0))
        for job in (wide, long, short):  # in this order
            await cluster.submit(job, at=NOW + 15)
        await schedule(prioritizer, scheduler, NOW + 20)
        assert cluster.states() == {1: "running", 2: "pending", 3: "pending", 4: "allocated"}
        assert reasons(cluster) == {2: "resources", 3: "reserved"}
        kept = f"it would delay job 2, for which n2 is kept from {shown_instant(NOW + 110)} on"
        assert cluster.rows("SELECT reason_fact FROM job WHERE id = 3") == [(kept,)]
        assert cluster.rows(RESERVED) == [(2, '["n1", "n2"]', NOW + 110)]
        shown = cluster.rows("SELECT expected_start_at, reserved_nodes FROM job WHERE id = 2")
        assert shown == [(NOW + 110, '["n1", "n2"]')]
        await cluster.end(1, at=NOW + 60)
        await cluster.end(4, at=NOW + 60)
        await schedule(prioritizer, scheduler, NOW + 61)
        assert cluster.states()[2] == "allocated"
        assert cluster.rows("SELECT job_id FROM reservations") == [(3,)]


async def test_without_backfill_a_wide_job_starves_and_is_told_so(broker, tmp_path):
    async with a_cluster(
        tmp_path, broker.url, builder.configuration(scheduling=SchedulingSettings(backfill="none"))
    ) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        for name in ("n1", "n2"):
            await cluster.add_node(name, vcore=1)
        await cluster.submit(builder.accepted(request={"time_limit_s": 100.0}))
        await schedule(prioritizer, scheduler)
        await cluster.submit(builder.accepted(nodes=2), builder.accepted(), at=NOW + 1)
        await schedule(prioritizer, scheduler, NOW + 2)
        assert cluster.states() == {1: "allocated", 2: "pending", 3: "allocated"}
        assert "later jobs that fit go first" in cluster.rows("SELECT reason_fact FROM job WHERE id = 2")[0][0]


async def test_a_reservations_time_is_a_trigger(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=1)
        await cluster.submit(builder.accepted(request={"time_limit_s": 100.0}), builder.accepted())
        await schedule(prioritizer, scheduler)
        assert cluster.rows(RESERVED) == [(2, '["n1"]', NOW + 100)]
        await scheduler.run_once(NOW + 99)
        assert cluster.rows(RESERVED) == [(2, '["n1"]', NOW + 100)]
        await scheduler.run_once(NOW + 100)  # the job is over its limit: expected to end now
        await scheduler.run_once(NOW + 101)
        assert cluster.rows(RESERVED) == [(2, '["n1"]', NOW + 100)]
        assert cluster.states() == {1: "allocated", 2: "pending"}


async def test_limits_hold_for_each_user_and_say_whose(broker, tmp_path):
    limits = (
        Limit(users=("alice",), maxresources={"vcore": 2000}),
        Limit(users=("*",), maxapplications=1),
    )
    root = builder.parent("root", builder.leaf("root.default", limits=limits))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=20)
        await cluster.submit(*[builder.accepted()] * 3, *[builder.accepted(user="bob")] * 2)
        await schedule(prioritizer, scheduler)
        assert cluster.states() == {1: "allocated", 2: "allocated", 3: "pending", 4: "allocated", 5: "pending"}
        assert reasons(cluster) == {3: "user limit", 5: "user limit"}
        facts = dict(cluster.rows("SELECT id, reason_fact FROM job WHERE reason IS NOT NULL"))
        assert "user alice in root.default is at its maximum of vcore (2)" in facts[3]
        assert "user bob in root.default is at its maximum of 1 running applications" in facts[5]
        await cluster.end(1, at=NOW + 1)
        await cluster.end(4, at=NOW + 1)
        await schedule(prioritizer, scheduler, NOW + 2)
        assert reasons(cluster) == {}


async def test_a_queue_runs_no_more_applications_than_it_may(broker, tmp_path):
    root = builder.parent("root", builder.leaf("root.default", maxapplications=1))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=20)
        named = [builder.accepted(request={"application": name}) for name in ("a", "b", "a")]
        await cluster.submit(*named)
        await cluster.submit(builder.accepted(), at=NOW + 1)
        await schedule(prioritizer, scheduler, NOW + 1)
        assert cluster.states() == {1: "allocated", 2: "pending", 3: "allocated", 4: "pending"}
        assert reasons(cluster) == {2: "queue quota", 4: "queue quota"}


async def test_applications_of_a_fair_leaf_take_turns(broker, tmp_path):
    root = builder.parent("root", builder.leaf("root.default", properties=QueueProperties(sort_policy="fair")))
    async with a_cluster(tmp_path, broker.url, builder.configuration(root=root)) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=4)
        names = ["a"] * 4 + ["b"] * 4
        await cluster.submit(*[builder.accepted(request={"application": name}) for name in names])
        await schedule(prioritizer, scheduler)
        started = [job for job, state in cluster.states().items() if state == "allocated"]
        assert started == [1, 2, 5, 6]


async def test_an_exclusive_job_is_charged_for_whole_nodes(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await cluster.add_node("n1", vcore=8)
        await cluster.submit(builder.accepted(request={"exclusive": True}), builder.accepted())
        await schedule(prioritizer, scheduler)
        assert cluster.rows("SELECT job_id, charge_rate FROM allocations") == [(1, 8.0)]
        assert cluster.rows("SELECT resources FROM allocation_nodes") == [('{"vcore": 8000}',)]
        assert reasons(cluster) == {2: "resources"}

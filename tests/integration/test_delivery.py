"""Deliveries, supervised from end to end: a real intake and a real broker; the test plays scheduler and agents."""

from __future__ import annotations

import asyncio
import time

import builder
import pytest
from integration.intake_stage import (
    DRAIN,
    RESUME,
    allocate,
    an_intake,
    joined,
    report,
    send,
    story,
    until_state,
    write,
)
from integration.stage import PATIENCE_S, a_cluster
from nats.js.api import StreamConfig

from rankd.core.model.delivery import Waiting
from rankd.services.intake.retired_stream import ALLOCATIONS, REPORTS
from rankd.store.record.delivery import Ask, give, take_back, untaken
from rankd.wire.codec import encode
from rankd.wire.message import ReportMessage

NOW = builder.NOW
REASON = "did not take allocation {allocation} (job {job})"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def take(stage, node: str = "n1", **more):
    return (await stage.ask(f"rankd.v1.node.{node}.take", {"agent": node, **more})).body


def starts(answer) -> list[int]:
    return [start["allocation"] for start in answer.get("starts", [])]


async def test_what_a_node_is_given_it_has_taken_and_is_given_once(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(env={"A": "b"})
        allocation = await allocate(tmp_path, job, "n1")
        assert starts(await take(stage, "n2")) == []
        answer = await take(stage)
        [start] = answer["starts"]
        assert (start["allocation"], start["job"], start["user"], start["nodes"]) == (allocation, job, "alice", ["n1"])
        assert start["request"]["env"] == {"A": "b"}
        assert starts(await take(stage)) == []
        assert starts(await take(stage, known=[allocation])) == []
        assert starts(await take(stage, known=[])) == [allocation]  # the answer was lost, and nothing has started


async def test_what_has_started_and_its_agent_does_not_know_is_lost(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        await take(stage)
        await send(stage, "n1", report(allocation, job, "started"))
        assert starts(await take(stage, known=[])) == []
        assert story(stage, job) == ["submit", "allocate", "start", "requeue"]


async def test_only_the_agent_that_represents_a_node_takes_its_allocations(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        assert (await take(stage, agent="another"))["code"] == "unknown_node"
        assert starts(await take(stage)) == [allocation]


async def test_a_job_that_is_cancelled_before_it_was_taken_never_starts(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        await allocate(tmp_path, job, "n1")
        await stage.do("job.cancel", {"id": job})
        assert await take(stage) == {}
        assert stage.states() == {job: "cancelled"}


async def test_a_wish_to_end_is_repeated_until_the_end(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        await take(stage)
        await stage.do("job.cancel", {"id": job})
        assert [(await take(stage))["cancels"] for _ in range(2)] == [[allocation]] * 2
        await send(stage, "n1", report(allocation, job, "ended", cause="cancel", signal=15))
        assert await take(stage) == {}


async def test_many_large_jobs_are_given_in_answers_that_the_broker_takes(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for _ in range(10):
            await allocate(tmp_path, await stage.submit(env={"X": "x" * 100_000}), "n1")
        given, more = [], True
        while more:
            answer = await take(stage)
            given += starts(answer)
            more = answer.get("more", False)
        assert given == list(range(1, 11))


async def test_a_heartbeat_tells_that_something_waits(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1", "n2")
        await allocate(tmp_path, await stage.submit(), "n1")
        assert (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})).body["waiting"] == ["n1"]
        await take(stage)
        assert "waiting" not in (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})).body


async def test_a_deaf_agents_node_is_drained_and_its_job_runs_elsewhere_and_never_there(broker, tmp_path):
    """It registers and sends heartbeats, and takes nothing."""
    async with an_intake(broker, tmp_path, lost_after_s="60\ntake_timeout_s = 0.5") as stage:
        job, running = await stage.submit(), await stage.submit()
        other = await allocate(tmp_path, running, "n1")
        assert starts(await take(stage)) == [other]
        await send(stage, "n1", report(other, running, "started"))
        old = await allocate(tmp_path, job, "n1")
        await stage.until(lambda: story(stage, job)[-1] == "take_back")
        shown = stage.rows("SELECT state, drained_by, drain_reason FROM nodes")
        assert shown[0][:2] == ("draining", "intake")
        assert f"allocation {old} (job {job})" in shown[0][2]
        assert stage.rows("SELECT state, requeues FROM jobs WHERE id = ?", job) == [("pending", 0)]
        assert stage.states()[running] == "running"
        assert starts(await take(stage)) == []  # it wakes up late
        await send(stage, "n1", report(old, job, "started"), report(old, job, "ended", exit_status=0))
        assert stage.states()[job] == "pending"
        new = await allocate(tmp_path, job, "n2")
        assert starts(await take(stage, "n2")) == [new]
        await send(stage, "n2", report(new, job, "ended", exit_status=0))
        await until_state(stage, job, "completed")
        await send(stage, "n1", report(other, running, "ended", exit_status=0))
        await until_state(stage, running, "completed")
        assert (await stage.ask(RESUME, {"nodes": ["n1"]})).body["done"] == ["n1"]
        third = await stage.submit()
        again = await allocate(tmp_path, third, "n1")
        assert starts(await take(stage)) == [again]


async def test_a_gang_of_which_one_node_is_deaf_waits_again(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="60\ntake_timeout_s = 0.5") as stage:
        job = await stage.submit(nodes=2, requeue=False)
        allocation = await allocate(tmp_path, job, "n1", "n2")
        assert starts(await take(stage, "n2")) == [allocation]
        await stage.until(lambda: stage.rows("SELECT cancel FROM allocations") == [("gang",)])
        assert (await take(stage, "n2"))["cancels"] == [allocation]
        await send(stage, "n2", report(allocation, job, "ended", cause="cancel"))
        await until_state(stage, job, "pending")
        assert story(stage, job)[-1] == "take_back"  # though it must not be requeued: it never ran
        assert stage.rows("SELECT name, state FROM nodes ORDER BY name") == [("n1", "draining"), ("n2", "up")]


async def test_reports_are_kept_within_what_a_node_can_know(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        await take(stage)
        wild = {"exit_status": 10**15, "max_rss_bytes": 2**62, "cpu_s": 1e15, "stdout": "x" * 100_000}
        await send(stage, "n1", report(allocation, job, "ended", 1e11, started_at=-5.0, **wild))
        [(started_at, ended_at)] = stage.rows("SELECT started_at, ended_at FROM jobs")
        assert NOW <= started_at <= ended_at <= time.time()
        row = "SELECT exit_status, max_rss_bytes, cpu_s, length(stdout) FROM allocation_nodes"
        assert stage.rows(row) == [(255, None, None, 4096)]


async def test_a_node_whose_agent_can_run_no_jobs_is_drained_until_somebody_resumes_it(broker, tmp_path):
    drained = "SELECT name, state, drained_by, drain_reason FROM nodes ORDER BY name"
    silent = "keeper 7 does not answer: it is stopped or hangs"
    text = f"its agent can run no jobs: {silent}; fix that, then resume the node"
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1", "n2", "n3")
        await stage.ask(DRAIN, {"node": "n2", "reason": "new disks"})
        for node in ("n1", "n2"):
            beat = {"nodes": [node], "unable": silent}
            assert (await stage.ask(f"rankd.v1.node.{node}.heartbeat", beat)).status is None
        assert stage.rows(drained) == [
            ("n1", "draining", "intake", text),
            ("n2", "draining", "root", "new disks"),
            ("n3", "up", None, None),
        ]
        await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"], "unable": silent})
        assert stage.rows("SELECT count(*) FROM node_events WHERE node = 'n1' AND event = 'drain'") == [(1,)]
        await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})
        assert stage.rows(drained)[0][1] == "draining"
        await stage.ask(RESUME, {"node": "n1"})
        assert stage.rows(drained)[0] == ("n1", "up", None, None)


async def test_a_report_about_another_nodes_allocation_is_not_believed(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        await joined(stage, "n2")
        await send(stage, "n2", report(allocation, job, "ended", exit_status=0))
        assert stage.states() == {job: "allocated"}


async def test_reports_of_an_older_versions_stream_are_taken_over_and_the_streams_go(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
    async with a_cluster(tmp_path, broker.url, roles=()) as cluster:
        stream = cluster.bus.jetstream
        for name, kind in ((REPORTS, "report"), (ALLOCATIONS, "allocation")):
            await stream.add_stream(StreamConfig(name=name, subjects=[f"rankd.v1.node.*.{kind}"]))
        ended = encode(ReportMessage(reports=[report(allocation, job, "ended", exit_status=0)]))
        for payload in (b"garbage", ended):
            await stream.publish("rankd.v1.node.n1.report", payload)
    async with an_intake(broker, tmp_path) as stage:
        assert stage.states() == {job: "completed"}
        names = [info.config.name for info in await stage.connection.jetstream().streams_info()]
        assert not {REPORTS, ALLOCATIONS} & set(names)


# --- what is taken back, by the records alone ---------------------------------------------------------------


async def test_what_was_taken_meanwhile_is_not_taken_back(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        await allocate(tmp_path, job, "n1")
    async with a_cluster(tmp_path, broker.url) as cluster:
        [seen] = await cluster.database.read(untaken)
        assert seen == Waiting(
            node="n1", allocation=1, job=job, allocated_at=seen.allocated_at, heard_at=seen.heard_at, present=True
        )
        ask = Ask(node="n1", agent="n1", known=None)
        await cluster.database.write(lambda c: give(c, [ask], 3, time.time()))
        assert await cluster.database.write(lambda c: take_back(c, [seen], REASON, 3, time.time())) == 0
        assert cluster.rows("SELECT state FROM nodes") == [("up",)]


async def test_a_node_whose_agent_said_goodbye_is_not_drained_and_its_jobs_wait_again(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="60\ntake_timeout_s = 0.5") as stage:
        job = await stage.submit()
        await allocate(tmp_path, job, "n1")
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        await stage.until(lambda: story(stage, job)[-1] == "take_back")
        assert stage.rows("SELECT state, drained_by FROM nodes") == [("down", None)]


async def test_a_node_that_is_away_has_longer(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="60\ntake_timeout_s = 0.5") as stage:
        await joined(stage, "n2")
        job, other = await stage.submit(), await stage.submit()
        away = await allocate(tmp_path, job, "n1")
        write(tmp_path, "UPDATE nodes SET heartbeat_at = heartbeat_at - 30 WHERE name = 'n1'")
        await allocate(tmp_path, other, "n2")
        await stage.until(lambda: story(stage, other)[-1] == "take_back")
        async with asyncio.timeout(PATIENCE_S):
            assert starts(await take(stage)) == [away]

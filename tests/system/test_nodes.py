"""Nodes that fall silent, come back, and leave."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from system.client import connected
from watch import PATIENCE_S

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture
def hasty(tmp_path: Path) -> Path:
    """The shipped configuration, but for nodes that are given up after a second."""
    config = tmp_path / "config"
    shutil.copytree(CONFIG, config)
    settings = config / "rankd.toml"
    settings.write_text(settings.read_text().replace("heartbeat_s = 5", "heartbeat_s = 0.2\nlost_after_s = 1.0"))
    return config


async def until(subscription, event: str) -> dict:
    """The first transition with this event."""
    while True:
        message = await subscription.next_msg(timeout=PATIENCE_S)
        for found in json.loads(message.data)["events"]:
            if found["event"] == event:
                return found


async def test_a_silent_nodes_job_is_requeued_and_runs_once_more_when_the_node_is_back(machine, hasty):
    machine.start("--no-local-agent", "--simulate", "1", "--config", str(hasty))
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [job] = await client.submit("alice", {"command": ["sleep", "3"]})
        await until(events, "start")
        agent = machine.up["pids"]["agent-sim"]
        os.kill(agent, signal.SIGSTOP)
        lost = await until(events, "requeue")
        os.kill(agent, signal.SIGCONT)
        assert lost["cause"] == "node_lost"
        assert (await client.until_ended(1))[job] == "completed"
    allocations = machine.rows("SELECT ended_at FROM allocation WHERE job_id = ?", job)
    assert len(allocations) == 2
    assert machine.rows("SELECT requeues FROM job WHERE id = ?", job) == [{"requeues": 1}]


async def test_a_job_that_may_not_be_requeued_is_lost_with_its_node(machine, hasty):
    machine.start("--no-local-agent", "--simulate", "1", "--config", str(hasty))
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [job] = await client.submit("alice", {"command": ["sleep", "60"], "requeue": False})
        await until(events, "start")
        agent = machine.up["pids"]["agent-sim"]
        os.kill(agent, signal.SIGSTOP)
        assert (await client.until_ended(1))[job] == "node_lost"
        os.kill(agent, signal.SIGCONT)


async def test_a_drained_node_finishes_what_it_has_and_takes_nothing_over_a_restart_until_it_is_resumed(machine):
    machine.start("--no-local-agent", "--simulate", "1")
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [first] = await client.submit("alice", {"command": ["sleep", "1"]})
        await until(events, "start")
        machine.rankd("node", "drain", "--admin", "sim-[1]", "-r", "new disks", "--as", "root")
        [second] = await client.submit("alice", {"command": ["true"]})
        assert await client.until_ended(1) == {first: "completed"}
    reasons = machine.rankd("nodes", "-R")
    assert "new disks" in reasons
    assert "root" in reasons
    assert machine.stop() == 0
    machine.start("--no-local-agent", "--simulate", "1")
    assert machine.rows("SELECT state FROM node") == [{"state": "draining"}]
    assert machine.rows("SELECT state FROM job WHERE id = ?", second) == [{"state": "pending"}]
    async with connected(machine.up["nats"], machine.services) as client:
        machine.rankd("node", "resume", "--admin", "sim-1")
        assert (await client.until_ended(1))[second] == "completed"
    assert "is not draining" in machine.rankd_fails("node", "undrain", "--admin", "sim-1")


async def test_a_killed_agents_job_runs_on_and_is_not_started_again(machine):
    machine.start("--name", "here")
    starts, go = machine.directory.parent / "starts", machine.directory.parent / "go"
    script = f"echo $RANKD_ALLOCATION_ID >> {starts}; while ! [ -e {go} ]; do sleep 0.05; done; exit 7"
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [job] = await client.submit("alice", {"command": ["sh", "-c", script]})
        await until(events, "start")
        machine.kill("agent")
        go.touch()
        assert (await client.until_ended(1))[job] == "failed"
    assert machine.rows("SELECT exit_status, requeues FROM job") == [{"exit_status": 7, "requeues": 0}]
    assert len(starts.read_text().splitlines()) == 1


async def test_what_ran_on_a_killed_agents_simulated_nodes_is_requeued(machine):
    machine.start("--no-local-agent", "--simulate", "2")
    async with connected(machine.up["nats"], machine.services) as client:
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        [job] = await client.submit("alice", {"command": ["sleep", "3"]})
        await until(events, "start")
        machine.kill("agent-sim")
        assert (await until(events, "requeue"))["cause"] == "lost"
        assert (await client.until_ended(1))[job] == "completed"
    assert machine.rows("SELECT requeues FROM job") == [{"requeues": 1}]


async def test_nodes_of_a_stopped_agent_get_no_jobs(machine):
    machine.start("--no-local-agent", "--simulate", "2")
    assert machine.stop() == 0
    assert machine.rows("SELECT DISTINCT state FROM node") == [{"state": "down"}]
    machine.start("--name", "here")
    async with connected(machine.up["nats"], machine.services) as client:
        [job] = await client.submit("alice", {"command": ["true"]})
        await client.until_ended(1)
    assert machine.rows("SELECT nodelist FROM job WHERE id = ?", job) == [{"nodelist": "here"}]

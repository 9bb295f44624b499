"""Two real agents: jobs on both, and a run that was given up while its node was away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import asynccontextmanager

from system.client import connected
from system.conftest import RANKD
from system.test_nodes import hasty, until
from watch import PATIENCE_S, alive, appears, gone

__all__ = ["hasty"]  # a fixture


@asynccontextmanager
async def another_agent(machine, client, name: str):
    """In use by the time the block begins."""
    joined = await client.connection.subscribe(f"rankd.v1.event.node.{name}")
    state = machine.directory.parent / name
    place = ["--nats", machine.up["nats"], "--creds", str(machine.credentials("node", name))]
    command = ["agent", *place, "--name", name, "--state", str(state), "--run-as", "agent"]
    process = subprocess.Popen([*RANKD, *command], stderr=subprocess.DEVNULL)
    try:
        await joined.next_msg(timeout=PATIENCE_S)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        await asyncio.to_thread(process.wait)


async def test_a_gang_starts_on_all_its_nodes_and_fails_together(machine):
    machine.start("--name", "here")
    there = machine.directory.parent / "seen"
    there.mkdir()
    script = f"""
        echo "$RANKD_JOB_ID $RANKD_ALLOCATION_ID $RANKD_NNODES $RANKD_NODELIST $$" > {there}/$RANKD_NODE_RANK
        if [ $RANKD_NODE_RANK = 0 ]; then while ! [ -s {there}/1 ]; do sleep 0.05; done; exit 3; fi
        exec sleep 1000"""
    async with connected(machine.up["nats"], machine.services) as client, another_agent(machine, client, "there"):
        [job] = await client.submit("alice", {"command": ["sh", "-c", script], "nodes": 2})
        assert (await client.until_ended(1))[job] == "failed"
    assert machine.rows("SELECT exit_status, nodelist FROM job") == [{"exit_status": 3, "nodelist": "here,there"}]
    first, second = ((there / str(rank)).read_text().split() for rank in (0, 1))
    assert first[:3] == second[:3] == [str(job), "1", "2"]
    assert set(first[3].split(",")) == {"here", "there"}
    assert not alive(int(second[4]))


async def test_a_run_that_was_given_up_is_ended_when_its_node_is_back(machine, hasty):
    """The agent is silent, its job runs on; by the time that it is back the job has run elsewhere."""
    machine.start("--no-local-agent", "--simulate", "1", "--config", str(hasty))
    pids = machine.directory.parent / "pids"
    async with connected(machine.up["nats"], machine.services) as client:
        machine.rankd("node", "drain", "--admin", "sim-1")
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        async with another_agent(machine, client, "there") as agent:
            command = ["sh", "-c", f"echo $$ > {pids}; exec sleep 1000"]
            [job] = await client.submit("alice", {"command": command})
            await until(events, "start")
            pid = int(await appears(pids))
            os.kill(agent.pid, signal.SIGSTOP)
            assert (await until(events, "requeue"))["cause"] == "node_lost"
            machine.rankd("node", "resume", "--admin", "sim-1")
            assert (await client.until_ended(1))[job] == "completed"
            assert alive(pid)
            os.kill(agent.pid, signal.SIGCONT)
            await gone(pid)
    assert machine.rows("SELECT nodelist, requeues FROM job") == [{"nodelist": "sim-1", "requeues": 1}]
    assert len(machine.rows("SELECT id FROM allocation")) == 2


async def test_the_memory_that_a_job_asked_for_is_all_that_it_gets(machine):
    """Where the host has no control groups for us, the agent's log says so."""
    machine.start("--name", "here")
    log = (machine.directory / "log/agent.log").read_text()
    limited = "memory of jobs limited" in log or "memory (cgroup" in log
    eater = ["python3", "-c", "data = bytearray(300 * 2**20)"]
    async with connected(machine.up["nats"], machine.services) as client:
        [job] = await client.submit("alice", {"command": eater, "resources": {"vcore": 1, "memory": "64Mi"}})
        ended = (await client.until_ended(1))[job]
    assert ended == ("out_of_memory" if limited else "completed")
    assert limited or "NOT limited" in log
    [row] = machine.rows("SELECT message FROM job")
    assert bool(row["message"]) is limited

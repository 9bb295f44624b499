"""After `rankd up` was killed, looking commands say since when nothing was heard of the services, or of a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing

from integration.stage import true_in_time
from system.client import connected
from system.conftest import RANKD, Machine
from watch import PATIENCE_S

from rankd.store.engine.driver import sqlite3

LOOKING = (["queue"], ["nodes"], ["prio"], ["acct"], ["show", "1"], ["why", "1"], ["queues"], ["share"])


def look(machine: Machine, *words: str, **place: str) -> tuple[str, str]:
    done = subprocess.run(
        [*RANKD, *words],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | place,
        cwd=machine.directory.parent,
    )
    return done.stdout, done.stderr


def write(machine: Machine, *statements: str) -> None:
    with closing(sqlite3.connect(machine.directory / "rankd.db", timeout=PATIENCE_S)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def running_job(machine: Machine) -> None:
    machine.start("--no-local-agent", "--simulate", "1")
    async with connected(machine.up["nats"], machine.services) as client:
        await client.submit("alice", {"command": ["sleep", "600"]})
        events = await client.connection.subscribe("rankd.v1.event.job.alice")
        while machine.rows("SELECT state FROM job") != [{"state": "running"}]:
            await events.next_msg(timeout=PATIENCE_S)


def has_forecaster(machine: Machine) -> bool:
    """Whether the service for which `rankd up` does not wait is there, too: one that comes later is not silent."""
    return bool(machine.rows("SELECT 1 FROM service WHERE name = 'forecaster'"))


async def test_the_services_are_said_to_be_silent_and_times_do_not_count_on(machine):
    await running_job(machine)
    await true_in_time(lambda: has_forecaster(machine))
    here = {"RANKD_DIR": str(machine.directory)}
    assert look(machine, "queue", **here)[1] == ""
    up = machine.up
    for pid in (up["pid"], *up["pids"].values()):
        os.kill(pid, signal.SIGKILL)
    machine.stop()  # only its pipe is left
    write(
        machine,
        "UPDATE roles SET alive_at = alive_at - 300",
        "UPDATE jobs SET started_at = (SELECT alive_at - 100 FROM roles WHERE name = 'intake')",
    )
    for words in LOOKING:
        printed, said = look(machine, *words, **here)
        assert said.count("the services have not been heard of since") == 1, words
        assert "heard" not in printed
    printed, said = look(machine, "queue", "--noheader", **here)
    assert "times and states are as of then" in said
    assert " R 1:40 " in printed
    assert json.loads(look(machine, "queue", "--json", **here)[0])[0]["state"] == "running"


async def test_a_node_and_a_service_that_are_silent_are_named_over_the_bus_too(machine):
    await running_job(machine)
    up = machine.up
    os.kill(up["pids"]["agent-sim"], signal.SIGSTOP)
    os.kill(up["pids"]["scheduler"], signal.SIGSTOP)
    try:
        # the agent's heartbeats before it was stopped are all written once one more sign of life of the intake is
        at = time.time()
        while machine.rows("SELECT alive_at FROM service WHERE name = 'intake'")[0]["alive_at"] < at:
            time.sleep(0.1)
        write(
            machine,
            "UPDATE nodes SET heartbeat_at = heartbeat_at - 50",
            "UPDATE jobs SET started_at = (SELECT heartbeat_at - 40 FROM nodes)",
            "UPDATE roles SET alive_at = alive_at - 50 WHERE name = 'scheduler'",
        )
        for place in ({"RANKD_DIR": str(machine.directory)}, {"RANKD_NATS": up["nats"], "RANKD_CREDS": up["creds"]}):
            printed, said = look(machine, "queue", **place)
            assert "the scheduler has not been heard of since" in said
            assert "node sim-1 has not been heard of since" in said
            assert " R  0:40 " in printed
    finally:
        os.kill(up["pids"]["agent-sim"], signal.SIGCONT)
        os.kill(up["pids"]["scheduler"], signal.SIGCONT)

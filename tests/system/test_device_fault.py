"""A whole rankd with NVIDIA's cards, by a stand-in of the driver's library: errors, and processes without a job."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from integration.nvml import GIB, Card, needs_compiler
from integration.nvml import Machine as StandIn
from system.client import connected
from watch import appears

pytestmark = needs_compiler

XID = 8
ADDRESSES = ("00000000:3B:00.0", "00000000:5E:00.0")


def cards(*pids: int) -> list[Card]:
    """Two cards; these processes compute on the second one."""
    own = [(), pids]
    return [
        Card(f"GPU-{n}", minor=n, address=address, pids=own[n], used=2 * GIB) for n, address in enumerate(ADDRESSES)
    ]


@pytest.fixture
def stand_in(tmp_path, machine, monkeypatch) -> StandIn:
    made = StandIn(tmp_path / "nvml")
    made.has(*cards())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(made.directory))
    machine.start("--name", "lab", "--resources", "vcore=64")
    return made


def states(machine) -> dict[str, str]:
    return {row["id"]: row["state"] for row in machine.rows("SELECT id, state FROM device")}


async def test_a_card_with_an_error_is_kept_by_its_job_and_given_to_no_other_until_it_is_resumed(
    machine, tmp_path, stand_in
):
    async with connected(machine.up["nats"], machine.services) as client, client.news() as until:
        script = f"echo up > {tmp_path}/up; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done"
        [holder] = await client.submit("alice", {"command": ["sh", "-c", script], "resources": {"gpu:a100": 1}})
        await appears(tmp_path / "up")
        stand_in.tell("GPU-0", XID, 79)
        await until(lambda: states(machine) == {"GPU-0": "failed", "GPU-1": "ok"})
        assert f"job {holder} alice" in machine.rankd("nodes", "--devices")
        [capacity] = machine.rows("SELECT capacity FROM node")
        assert json.loads(capacity["capacity"])["gpu"] == 1
        [waits, other] = await client.submit(
            "bob",
            {"command": ["true"], "resources": {"gpu": 2}},
            {"command": ["true"], "resources": {"gpu": 1}},
        )
        await until(lambda: machine.rows("SELECT id FROM job WHERE id = ? AND state = 'completed'", other))
        assert machine.rows("SELECT id FROM job_device WHERE job = ?", other) == [{"id": "GPU-1"}]
        (tmp_path / "go").touch()
        await until(lambda: machine.rows("SELECT id FROM job WHERE id = ? AND state = 'completed'", holder))
        assert "[0 a100 failed XID 79 at 20" in machine.rankd("nodes", "--devices")
        assert machine.rows("SELECT state FROM job WHERE id = ?", waits) == [{"state": "pending"}]
        machine.rankd("node", "device-resume", "--admin", "lab", "GPU-0")
        await client.until_ended(3)
    assert set(client.ended.values()) == {"completed"}
    assert states(machine) == {"GPU-0": "ok", "GPU-1": "ok"}
    used = machine.rankd("acct", "--admin", "-H", "-P", "-o", "JobID,GPUs,MaxGPUMem").splitlines()
    assert used[0] == f"{holder}|1|2048M"
    assert [line.rpartition("|")[0] for line in used[1:]] == [f"{waits}|2", f"{other}|1"]


async def test_a_card_that_a_process_without_a_job_uses_is_not_given_to_jobs(machine, stand_in):
    async with connected(machine.up["nats"], machine.services) as client, client.news() as until:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
            stand_in.has(*cards(foreign.pid))
            await until(lambda: states(machine) == {"GPU-0": "ok", "GPU-1": "taken"})
            assert f"[0 a100 free] [1 a100 taken {foreign.pid} " in machine.rankd("nodes", "--devices")
            [waits, runs] = await client.submit(
                "bob",
                {"command": ["true"], "resources": {"gpu": 2}},
                {"command": ["true"], "resources": {"gpu": 1}},
            )
            await until(lambda: machine.rows("SELECT id FROM job WHERE id = ? AND state = 'completed'", runs))
            assert machine.rows("SELECT id FROM job_device WHERE job = ?", runs) == [{"id": "GPU-0"}]
            assert f"gpu 1 is taken by process {foreign.pid} of" in machine.rankd("why", str(waits))
            foreign.communicate(b"\n")
        stand_in.has(*cards())
        assert set((await client.until_ended(2)).values()) == {"completed"}

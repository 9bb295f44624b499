"""``make test-gpu``: a whole rankd on a machine with a real NVIDIA GPU. Without one, each test is skipped and says so.

They check what a stand-in of the driver's library can't: that the driver is read as it is, that a job computes on its
own GPU and can open no other one, that its use is measured, and that a program beside rankd is noticed.
AMD's GPUs are not checked. Nothing else may use the GPUs meanwhile. Each test takes up to a minute.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from system.client import connected
from system.cuda_load import MEMORY_BYTES
from watch import PATIENCE_S

LOAD = Path(__file__).with_name("cuda_load.py")
SAMPLES = 4
"""Looks at the GPU, every 10 s, for which a job keeps it busy."""


def driver_says() -> str:
    """What ``nvidia-smi -L`` prints: the cards and parts of this machine; empty without a driver or a card."""
    if shutil.which("nvidia-smi") is None:
        return ""
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 and "UUID" in done.stdout else ""


LISTED = driver_says()
pytestmark = [
    pytest.mark.skipif(not LISTED, reason="this machine has no NVIDIA GPU that its driver lists (nvidia-smi -L)"),
    pytest.mark.skipif(
        "RANKD_TEST_GPU" not in os.environ, reason="run by make test-gpu, since nothing else may use the GPUs meanwhile"
    ),
]


def uuids_of_driver() -> set[str]:
    """Those of this machine."""
    return uuids_in(LISTED)


def uuids_in(listed: str) -> set[str]:
    """Those of the parts where a card has some, since such a card is not offered as a whole."""
    found = [line.partition("UUID: ")[2].strip(" )") for line in listed.splitlines() if "UUID: " in line]
    parted = {above for above, below in pairwise(found) if below.startswith("MIG-")}
    return set(found) - {uuid for uuid in parted if uuid.startswith("GPU-")}


@pytest.fixture
def node(machine):
    machine.start("--name", "lab", "--resources", "vcore=4")
    return machine


def devices(machine):
    """The node's devices, as `rankd nodes --devices --json` has them, by id."""
    return {row["id"]: row for row in json.loads(machine.rankd("nodes", "--devices", "--json"))}


def bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-")


def load(*words: object) -> list[str]:
    return [sys.executable, str(LOAD), *map(str, words)]


ENVIRONMENT = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
"""Of the jobs: where containers have the driver's library."""


def outputs(node) -> str:
    return "".join(file.read_text() for file in (node.directory / "agent" / "output").rglob("job-*"))


async def a_report(client, node, job: int) -> None:
    """Until the agent has reported the job's use, which it does after the end; each further job is a moment later."""
    async with asyncio.timeout(PATIENCE_S):
        while node.rows("SELECT id FROM job_device WHERE job = ? AND measured_at IS NULL", job):
            await client.submit("alice", {"command": ["true"]})
            await client.until_ended(len(client.ended) + 1)


def files_of_cards() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))


def test_the_agent_offers_what_the_driver_lists(node):
    found = devices(node)
    assert set(found) == uuids_of_driver()
    assert {row["state"] for row in found.values()} == {"ok"}
    assert all(row["model"] for row in found.values())
    [capacity] = node.rows("SELECT capacity FROM node")
    assert json.loads(capacity["capacity"])["gpu"] == len(found)


async def test_a_job_computes_on_its_own_gpu_and_opens_no_other_one(node, tmp_path):
    (tmp_path / "stop").touch()
    outs = [tmp_path / "with", tmp_path / "without"]
    asked = [load(out, tmp_path / "stop", *files_of_cards()) for out in outs]
    async with connected(node.up["nats"], node.services) as client:
        [job, other] = await client.submit(
            "alice",
            {"command": asked[0], "resources": {"gpu": 1}, "env": ENVIRONMENT},
            {"command": asked[1], "env": ENVIRONMENT},
        )
        await client.until_ended(2)
    assert client.ended == {job: "completed", other: "completed"}, outputs(node)
    seen, seen_without = (json.loads(out.read_text()) for out in outs)
    [given] = node.rows("SELECT id FROM job_device WHERE job = ?", job)
    assert seen["uuids"] == [bare(given["id"])]
    assert seen_without["uuids"] == []
    [confined] = json.loads(node.rankd("nodes", "-N", "-l", "--json"))
    if "can open no device" not in confined["confinement"]:
        pytest.skip(f"all but this was checked: jobs are not confined here: {confined['confinement']}")
    assert seen_without["opened"] == []
    assert len(seen["opened"]) == min(1, len(files_of_cards()))


async def test_the_use_of_a_gpu_is_measured(node, tmp_path):
    busy = shlex.join(load(tmp_path / "seen", tmp_path / "stop"))
    script = f"(sleep {10 * SAMPLES}; touch {shlex.quote(str(tmp_path / 'stop'))}) & exec {busy}"
    async with connected(node.up["nats"], node.services) as client:
        [job] = await client.submit(
            "alice", {"command": ["sh", "-c", script], "resources": {"gpu": 1}, "env": ENVIRONMENT}
        )
        await client.until_ended(1)
        assert client.ended == {job: "completed"}, outputs(node)
        await a_report(client, node, job)
    [used] = node.rows("SELECT id, mean_utilisation, peak_memory FROM job_device WHERE job = ?", job)
    assert used["peak_memory"] >= MEMORY_BYTES
    assert used["id"].startswith("MIG-") or used["mean_utilisation"] > 0.25


async def test_a_program_beside_rankd_takes_its_gpu(node, tmp_path):
    target = min(devices(node))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": target}
    async with connected(node.up["nats"], node.services) as client, client.news() as until:
        command = load(tmp_path / "seen", tmp_path / "stop")
        with subprocess.Popen(command, env=environment) as foreign:
            await until(lambda: devices(node)[target]["state"] == "taken")
            assert f"taken {foreign.pid} " in node.rankd("nodes", "--devices")
            (tmp_path / "stop").touch()
        await until(lambda: devices(node)[target]["state"] == "ok")

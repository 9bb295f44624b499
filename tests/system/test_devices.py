"""Jobs on a node with made-up devices write down what they see."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from contextlib import asynccontextmanager

import pytest
from system.client import connected
from system.conftest import RANKD
from watch import PATIENCE_S, appears

from rankd.store.schema.migration import shipped

SEE = """
for index in $(echo "$RANKD_GPUS" | tr , ' '); do
    mkdir "$OUT/held/$index" || echo "job $RANKD_JOB_ID: $index" >> "$OUT/clashes"
done
echo "${RANKD_GPUS-unset}|${RANKD_GPU_IDS-unset}|${CUDA_VISIBLE_DEVICES-unset}|${NVIDIA_VISIBLE_DEVICES-unset}" \\
    > "$OUT/seen/$RANKD_JOB_ID"
for index in $(echo "$RANKD_GPUS" | tr , ' '); do rmdir "$OUT/held/$index"; done
"""
ASKED = [{}, {"gpu": 1}, {"gpu:a100": 2}, {"gpu:v100": 1}, {"gpu": 3}, {"gpu:a100": 1, "gpu:v100": 1}, {"gpu": 1}, {}]
JOBS = 200
MODELS = ["a100"] * 4 + ["v100"] * 2
"""By index."""


@pytest.fixture
def places(tmp_path):
    for name in ("held", "seen"):
        (tmp_path / name).mkdir()
    return tmp_path


def asked_of(job):
    return ASKED[job % len(ASKED)]


def check_what_was_seen(asked, line, name):
    """The indices, in order; as many of each model as were asked for, and no variable with others."""
    indices, ids, cuda, nvidia = line.split("|")
    listed = [int(index) for index in indices.split(",") if index]
    assert cuda == nvidia == indices
    assert [id_ for id_ in ids.split(",") if id_] == [f"{name}-gpu-{index}" for index in listed]
    assert listed == sorted(set(listed))
    assert len(listed) == sum(asked.values())
    for kind, number in asked.items():
        if kind != "gpu":
            assert sum(MODELS[index] == kind.removeprefix("gpu:") for index in listed) == number


def check_the_records(machine):
    """Replays the events: no device is ever held by two jobs."""
    rows = machine.rows("SELECT job, id FROM job_device")
    assert len(rows) == sum(sum(asked_of(number).values()) for number in range(JOBS))
    holder = {}
    for event in machine.rows("SELECT job_id AS job, event FROM job_event ORDER BY id"):
        own = [row["id"] for row in rows if row["job"] == event["job"]]
        if event["event"] == "allocate":
            assert not holder.keys() & set(own), event
            holder |= dict.fromkeys(own, event["job"])
        elif event["event"] == "complete":
            holder = {device: job for device, job in holder.items() if job != event["job"]}
    assert not holder


async def test_two_hundred_jobs_see_the_devices_that_they_asked_for_and_no_others(machine, places):
    name = "lab"
    machine.start("--name", name, "--resources", "vcore=64", "--device", "gpu:a100:4", "--device", "gpu:v100:2")
    jobs = [
        {"command": ["sh", "-c", SEE], "resources": {"vcore": 0.1, **asked_of(number)}, "env": {"OUT": str(places)}}
        for number in range(JOBS)
    ]
    async with connected(machine.up["nats"], machine.services) as client:
        ids = await client.submit("alice", *jobs)
        assert set((await client.until_ended(JOBS)).values()) == {"completed"}
    assert not (places / "clashes").exists(), (places / "clashes").read_text()
    for number, id_ in enumerate(ids):
        check_what_was_seen(asked_of(number), (places / "seen" / str(id_)).read_text().strip(), name)
    check_the_records(machine)
    assert machine.rows("SELECT count(*) AS n FROM device WHERE job IS NOT NULL") == [{"n": 0}]


async def test_who_holds_a_device_is_shown_and_why_another_job_waits(machine, places):
    machine.start("--name", "lab", "--resources", "vcore=64", "--device", "gpu:a100:2")
    async with connected(machine.up["nats"], machine.services) as client:
        held = {"command": ["sh", "-c", f"echo up > {places}/up; sleep 1000"], "resources": {"gpu:a100": 1}}
        [one, waits] = await client.submit("alice", held, {"command": ["true"], "resources": {"gpu": 2}})
    await appears(places / "up")
    shown = machine.rankd("nodes", "--devices")
    assert f"[0 a100 job {one} alice] [1 a100 free]" in shown
    rows = json.loads(machine.rankd("nodes", "--devices", "--json"))
    assert [(row["id"], row["job"]) for row in rows] == [("lab-gpu-0", one), ("lab-gpu-1", None)]
    assert '{"lab":["lab-gpu-0"]}' in machine.rankd("show", str(one))
    check_columns(machine, one, waits)
    assert "gpu" in machine.rankd("why", str(waits))
    refused = machine.rankd_all("node", "device-drain", "--admin", "lab/1", "lab/9", "-r", "a fan", status=1)
    assert "1 of 2 devices were changed: lab/1" in refused.stderr
    assert "1/2 (0; 1 drained)" in machine.rankd("nodes", "-N")
    assert "gpu 1 is drained: a fan" in machine.rankd("why", str(waits))
    machine.rankd("node", "device-resume", "--admin", "lab/1")
    document = json.loads(machine.rankd("dump"))
    [node] = document["nodes"]
    assert [device["id"] for device in node["devices"]] == ["lab-gpu-0", "lab-gpu-1"]
    (places / "dump.json").write_text(json.dumps(document))
    decided = json.loads(machine.rankd("evaluate", str(places / "dump.json")))
    held = {row["job"]: row.get("devices") for row in [*document["allocations"], *decided["allocations"]]}
    assert held[one] == {"lab": ["lab-gpu-0"]}
    assert waits not in held


@asynccontextmanager
async def agent_with(machine, client, file):
    """An agent of the node ``lab`` with the devices of a file, registered by the time the block begins."""
    joined = await client.connection.subscribe("rankd.v1.event.node.lab")
    place = ["--nats", machine.up["nats"], "--creds", str(machine.directory.parent / "node-lab.creds")]
    state = machine.directory.parent / "lab"
    command = ["agent", *place, "--name", "lab", "--state", str(state), "--run-as", "agent", "--devices", str(file)]
    process = subprocess.Popen([*RANKD, *command], stderr=subprocess.DEVNULL)
    try:
        await joined.next_msg(timeout=PATIENCE_S)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def write_devices(file, number):
    tables = [f'[[device]]\nmodel = "a100"\nid = "g{index}"\nindex = {index}\n' for index in range(number)]
    file.write_text("".join(tables))


async def test_a_node_that_comes_back_with_fewer_devices_loses_no_job(machine, places):
    """Jobs on the devices that are left go on and keep them, and so does the one whose device is gone."""
    machine.start("--no-local-agent")
    machine.credentials("node", "lab")
    file, go = places / "devices.toml", places / "go"
    script = f"echo $RANKD_GPU_IDS > {places}/seen/$RANKD_JOB_ID; until [ -e {go} ]; do sleep 0.05; done"
    job = {"command": ["sh", "-c", script], "resources": {"vcore": 0.1, "gpu": 1}}
    async with connected(machine.up["nats"], machine.services) as client:
        write_devices(file, 4)
        async with agent_with(machine, client, file):
            ids = await client.submit("alice", job, job, job, job)
            for id_ in ids:
                await appears(places / "seen" / str(id_))
        write_devices(file, 2)
        async with agent_with(machine, client, file):
            held = {row["id"]: row["job"] for row in machine.rows("SELECT id, job FROM device")}
            assert sorted(held) == ["g0", "g1", "g2", "g3"]
            gone = machine.rows("SELECT id FROM device WHERE state = 'gone' ORDER BY id")
            assert gone == [{"id": "g2"}, {"id": "g3"}], "they are still held"
            for device, holder in held.items():
                assert (places / "seen" / str(holder)).read_text().strip() == device
            assert machine.rows("SELECT capacity ->> 'gpu' AS gpu FROM node") == [{"gpu": 2}]
            [waits] = await client.submit("alice", job)
            go.touch()
            assert set((await client.until_ended(5)).values()) == {"completed"}
    assert machine.rows("SELECT sum(requeues) AS n, count(*) AS jobs FROM job") == [{"n": 0, "jobs": 5}]
    assert (places / "seen" / str(waits)).read_text().strip() in ("g0", "g1")


async def test_a_newcomer_without_a_gpu_tries_simulated_nodes_that_have_some(machine):
    machine.start("--no-local-agent", "--simulate", "2", "--device", "gpu:a100:2")
    held = {"command": ["sleep", "1000"], "resources": {"gpu:a100": 2}}
    async with connected(machine.up["nats"], machine.services) as client, client.news() as until:
        [one, other, waits] = await client.submit("alice", held, held, {"command": ["true"], "resources": {"gpu": 1}})
        await until(lambda: len(machine.rows("SELECT id FROM job WHERE state = 'running'")) == 2)
        shown = machine.rankd("nodes", "--devices").splitlines()[1:]
        cells = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1].strip() for line in shown}
        jobs = {f"[0 a100 job {job} alice] [1 a100 job {job} alice]" for job in (one, other)}
        assert cells.keys() == {"sim-1", "sim-2"}
        assert set(cells.values()) == jobs
        assert machine.rows("SELECT state FROM job WHERE id = ?", waits) == [{"state": "pending"}]
        machine.rankd("cancel", "--admin", str(one))
        await until(lambda: machine.rows("SELECT id FROM job WHERE id = ? AND state = 'completed'", waits))
        machine.rankd("cancel", "--admin", str(other))
        await client.until_ended(3)
    assert [row["id"][:3] for row in machine.rows("SELECT id FROM job_device WHERE job = ?", waits)] == ["sim"]


async def test_a_device_stays_with_its_job_while_the_nodes_agent_is_killed_and_started_again(machine, places):
    machine.start("--name", "lab", "--resources", "vcore=64", "--device", "gpu:a100:2")
    go = places / "go"
    script = f"echo $RANKD_GPU_IDS > {places}/holds; while ! [ -e {go} ]; do sleep 0.05; done"
    sees = f"echo $RANKD_GPU_IDS > {places}/seen/$RANKD_JOB_ID"
    async with connected(machine.up["nats"], machine.services) as client, client.news() as until:
        [holder] = await client.submit("alice", {"command": ["sh", "-c", script], "resources": {"gpu": 1}})
        assert (await appears(places / "holds")).strip() == "lab-gpu-0"
        machine.kill("agent")
        job = {"command": ["sh", "-c", sees], "resources": {"gpu": 1}}
        both = {"command": ["sh", "-c", sees], "resources": {"gpu": 2}}
        [small, large] = await client.submit("bob", job, both)
        await until(lambda: machine.rows("SELECT id FROM job WHERE id = ? AND state = 'completed'", small))
        held = machine.rows("SELECT id, job FROM device ORDER BY id")
        assert held == [{"id": "lab-gpu-0", "job": holder}, {"id": "lab-gpu-1", "job": None}]
        assert machine.rows("SELECT state FROM job WHERE id = ?", large) == [{"state": "pending"}]
        go.touch()
        assert set((await client.until_ended(3)).values()) == {"completed"}
    assert (places / "seen" / str(small)).read_text().strip() == "lab-gpu-1"
    assert (places / "seen" / str(large)).read_text().strip() == "lab-gpu-0,lab-gpu-1"
    assert machine.rows("SELECT requeues FROM job WHERE id = ?", holder) == [{"requeues": 0}]


def check_columns(machine, runs, waits):
    """GPUs in the tables of nodes, of the queue, and of the accounting."""
    for words, cell in ((["nodes"], "1/2"), (["nodes", "-N"], "1/2 (0)")):
        header, line = machine.rankd(*words).splitlines()
        assert "GPUS(A/T)" in header
        assert cell in line
    header, *lines = machine.rankd("queue").splitlines()
    place = header.split().index("GPUS")
    assert {int(line.split()[0]): line.split()[place] for line in lines} == {runs: "a100:1", waits: "2"}
    fields = "JobID,GPUs,AllocTRES,ReqTRES"
    assert machine.rankd("acct", "-P", "-H", "-o", fields).splitlines() == [
        f"{runs}|1|cpu=1,gres/gpu=1,gres/gpu:a100=1,node=1|cpu=1,gres/gpu=1,gres/gpu:a100=1,node=1",
        f"{waits}|||cpu=1,gres/gpu=2,node=1",
    ]
    [row] = json.loads(machine.rankd("acct", "--json", "-j", str(runs)))
    assert row["gpus"] == {"a100": 1}


def test_config_check_warns_of_what_has_no_price(machine, tmp_path):
    machine.start("--name", "lab", "--resources", "vcore=2,fpga=1", "--device", "gpu:a100:2")
    said = machine.rankd("config", "check", str(shipped("config")))
    assert "fpga has no price, but lab offers it" in said
    assert "A second of a whole node costs: lab 34" in said
    assert "no node has" not in said
    own = shutil.copytree(shipped("config"), tmp_path / "etc")
    text = (own / "rankd.toml").read_text()
    prices = 'billing = { vcore = 1.0, fpga = 1.0, "gpu:A100" = 8.0, "gpu:a10" = 4.0 }'
    (own / "rankd.toml").write_text(re.sub("(?m)^billing = .*$", prices, text))
    said = machine.rankd("config", "check", str(own))
    assert "no node has gpu:a10, so its price has no effect" in said
    assert "gpu:a100" not in said, "capital letters do not count"

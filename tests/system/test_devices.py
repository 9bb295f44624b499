"""Jobs on a node with made-up devices write down what they see."""

from __future__ import annotations

import json

import pytest
from system.client import connected
from watch import appears

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
    assert "gpu" in machine.rankd("why", str(waits))
    document = json.loads(machine.rankd("dump"))
    [node] = document["nodes"]
    assert [device["id"] for device in node["devices"]] == ["lab-gpu-0", "lab-gpu-1"]
    (places / "dump.json").write_text(json.dumps(document))
    decided = json.loads(machine.rankd("evaluate", str(places / "dump.json")))
    held = {row["job"]: row.get("devices") for row in [*document["allocations"], *decided["allocations"]]}
    assert held[one] == {"lab": ["lab-gpu-0"]}
    assert waits not in held


def test_config_check_warns_of_what_has_no_price(machine):
    machine.start("--name", "lab", "--resources", "vcore=2,fpga=1", "--device", "gpu:a100:2")
    said = machine.rankd("config", "check", str(shipped("config")))
    assert "fpga has no price, but lab offers it" in said
    assert "A second of a whole node costs: lab 34" in said

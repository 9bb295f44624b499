"""The soak's verdict on devices: it accepts records that are right, and names each kind of fault."""

from __future__ import annotations

import builder
import pytest
from integration.stage import NOW, a_cluster
from soak.cluster import DEVICES
from soak.device_verdict import wrong_devices

from rankd.core.model.device import Device
from rankd.store.engine.driver import sqlite3
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.node import register_node
from rankd.wire.message import NodeRegistration, Report

SEEN = "1 0 1 n1-gpu-0,n1-gpu-2|0,2\n2 0 2 n1-gpu-1|1\n"
"""What the jobs wrote down."""


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def records(broker, tmp_path):
    """Two jobs on one node: one with an a100 and a v100, one with any GPU; both have ended."""
    devices = [Device(model=model, id=f"n1-gpu-{n}", index=n) for n, model in enumerate(DEVICES["n1"])]
    registration = NodeRegistration(resources={"vcore": 4}, agent="n1", devices=devices)
    asked = [{"vcore": 1000, "gpu": 2, "gpu:a100": 1, "gpu:v100": 1}, {"vcore": 1000, "gpu": 1}]
    held = [("n1-gpu-0", "n1-gpu-2"), ("n1-gpu-1",)]
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.database.write(lambda c: register_node(c, "n1", registration, NOW))
        jobs = await cluster.submit(*[builder.accepted(resources=amounts) for amounts in asked], at=NOW)
        revisions = dict(cluster.rows("SELECT id, revision FROM jobs"))
        new = [
            NewAllocation(
                job=job, revision=revisions[job], nodes=("n1",), resources=asked[n], charge_rate=1.0, generation=1,
                rank=1, devices={"n1": held[n]},
            )
            for n, job in enumerate(jobs)
        ]  # fmt: skip
        assert await cluster.database.write(lambda c: commit_allocations(c, new, 1, NOW)) == 2
        for job in jobs:
            await cluster.report(("n1", Report(allocation=job, job=job, kind="started", at=NOW)))
        await cluster.end(*jobs, at=NOW + 5)
    return tmp_path


def verdict(directory, seen=SEEN, change="", clash=""):
    if change:
        connection = sqlite3.connect(directory / "rankd.db")
        with connection:
            connection.execute(change)
        connection.close()
    (directory / "starts.log").write_text(seen)
    if clash:
        (directory / "clashes.log").write_text(clash + "\n")
    return wrong_devices(directory / "rankd.db", directory / "starts.log", directory / "clashes.log")


def test_records_that_are_right_are_accepted(records):
    assert verdict(records) == []


def test_a_job_that_saw_another_device_is_named(records):
    [wrong] = verdict(records, SEEN.replace("n1-gpu-1|1", "n1-gpu-0|0"))
    assert wrong == "allocation 2 rank 0 saw n1-gpu-0|0, was given n1-gpu-1|1"
    assert "saw n1-gpu-1|" in verdict(records, SEEN.replace("n1-gpu-1|1", "n1-gpu-1|"))[0]


def test_a_device_in_two_allocations_is_named(records):
    same = "UPDATE allocation_devices SET device = 'n1-gpu-0', position = 0 WHERE allocation_id = 2"
    wrong = verdict(records, SEEN.replace("n1-gpu-1|1", "n1-gpu-0|0"), same)
    assert [line.partition(": ")[2] for line in wrong] == ["('n1', 'n1-gpu-0') is in two allocations"]


def test_a_model_that_was_not_asked_for_is_named(records):
    [wrong, _] = verdict(records, change="UPDATE allocation_devices SET model = 'a100' WHERE position = 2")
    assert wrong.startswith("allocation 1 asks for {")
    assert wrong.endswith("has ['n1-gpu-0', 'n1-gpu-2'] on n1")


def test_a_device_that_is_still_held_is_named(records):
    held = "UPDATE allocation_devices SET held = 1 WHERE allocation_id = 2"
    assert verdict(records, change=held) == ["allocation 2 still holds n1-gpu-1"]


def test_jobs_that_ran_beside_each_other_on_a_device_are_named(records):
    said = "allocation 2 runs beside another one on n1-gpu-1"
    assert verdict(records, clash=said) == [said]

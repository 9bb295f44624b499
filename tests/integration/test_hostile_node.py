"""What a node that lies about devices can do: nothing to others' devices, and no text of it forges a line.

Also what users see of devices that others' jobs hold, as far as jobs are hidden.
"""

from __future__ import annotations

import json

import builder
import pytest
from integration.intake_stage import allocate_devices, an_intake
from integration.stage import CONFIG
from integration.test_intake_device import a_gpu_node, devices

from rankd.cli.common.log_line import LogLine
from rankd.services.intake import device_reports

KNOWN = '[nodes.known]\nn1 = {vcore = 2, "gpu:a100" = 1}\n'


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(device_reports, "LEAST_S", 0.0)
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        await a_gpu_node(stage, "n2", "i2")
        yield stage


async def see(stage, tmp_path, jobs: str) -> None:
    text = CONFIG["rankd.toml"] + f'[privacy]\njobs = "{jobs}"\n'
    (tmp_path / "config" / "rankd.toml").write_text(text)
    assert (await stage.ask("rankd.v1.admin.root.config.reload", {})).status is None


@pytest.mark.parametrize("number", [2**63, 2**64, 10**300, -1, 0])
async def test_amounts_of_allocations_that_do_not_exist_have_no_effect(stage, number):
    uses = [{"allocation": number, "id": "GPU-0", "busy": 1.0, "samples": 1}]
    reply = await stage.ask("rankd.v1.node.n2.device", {"uses": uses, "instance": "i2"})
    assert reply.body == {"taken": 1}
    assert stage.rows("SELECT count(*) FROM device_uses") == [(0,)]


async def test_a_node_changes_no_job_on_another_ones_device_of_the_same_id(stage):
    job = await stage.submit("alice")
    allocation = await allocate_devices(stage.path, job, "n1", "GPU-0")
    body = {
        "notes": [{"id": "GPU-0", "state": "failed", "fault": "XID"}, {"id": "GPU-7", "state": "taken", "by": "1 bob"}],
        "uses": [{"allocation": allocation, "id": "GPU-0", "idle_s": 9e8}],
        "instance": "i2",
    }
    assert (await stage.ask("rankd.v1.node.n2.device", body)).status is None
    assert [row[1] for row in devices(stage)] == ["ok", "ok"]
    assert [row[1] for row in devices(stage, "n2")] == ["failed", "ok"]
    assert stage.rows("SELECT count(*) FROM device_uses") == [(0,)]
    assert stage.states()[job] == "allocated"


async def test_texts_of_a_node_forge_no_line_in_the_log(stage, caplog):
    forged = [{"model": "a100", "id": "x\n2026-01-01T00:00:00Z WARNING rankd.intake all is well\x1b[2J", "index": 0}]
    body = {"resources": {"vcore": 2}, "agent": "n2", "devices": forged, "instance": "i2"}
    assert (await stage.ask("rankd.v1.node.n2.register", body)).body["code"] == "bad_devices"
    notes = [{"id": "GPU-0", "state": "failed", "reason": "\x1b[2J\r\n\u202e"}]
    assert (await stage.ask("rankd.v1.node.n2.device", {"notes": notes, "instance": "i2"})).status is None
    lines = [LogLine().format(record) for record in caplog.records]
    assert any("bad_devices" in line or "printable ASCII" in line for line in lines)
    assert all(line.isprintable() for line in lines if "n2" in line)


@pytest.mark.parametrize("jobs", ["counts", "own"])
async def test_a_device_does_not_tell_whose_job_holds_it(stage, tmp_path, jobs):
    foreign, own = await stage.submit("alice", name="secret"), await stage.submit("bob")
    await allocate_devices(stage.path, foreign, "n1", "GPU-0")
    await allocate_devices(stage.path, own, "n1", "GPU-1")
    taken = {"notes": [{"id": "GPU-0", "state": "taken", "by": "4711 alice"}], "instance": "i2"}
    await stage.ask("rankd.v1.node.n2.device", taken)
    await see(stage, tmp_path, jobs)
    reply = await stage.do("device.list", {}, "bob")
    assert "alice" not in json.dumps(reply.body)
    assert "secret" not in json.dumps(reply.body)
    rows = {(row["node"], row["id"]): row for row in reply.body["devices"]}
    shown = [foreign, None] if jobs == "counts" else [None, None]
    assert [rows["n1", "GPU-0"]["job"], rows["n1", "GPU-0"]["user"]] == shown
    assert [rows["n1", "GPU-1"]["job"], rows["n1", "GPU-1"]["user"]] == [own, "bob"]
    assert (rows["n2", "GPU-0"]["state"], rows["n2", "GPU-0"]["taken_by"]) == ("taken", None)
    every = await stage.ask("rankd.v1.admin.root.device.list", {})
    assert json.dumps(every.body).count("alice") == 2


async def test_a_node_offers_no_more_devices_than_the_administrator_allows(stage, tmp_path):
    (tmp_path / "config" / "rankd.toml").write_text(CONFIG["rankd.toml"] + KNOWN)
    assert (await stage.ask("rankd.v1.admin.root.config.reload", {})).status is None
    await a_gpu_node(stage)
    assert [row[0] for row in devices(stage)] == ["GPU-0"]
    [(capacity,)] = stage.rows("SELECT capacity FROM nodes WHERE name = 'n1'")
    assert json.loads(capacity)["gpu"] == 1
    notes = [{"id": "GPU-1", "state": "ok"}, {"id": "GPU-9", "state": "ok"}]
    await stage.ask("rankd.v1.node.n1.device", {"notes": notes, "instance": "i1"})
    assert [row[0] for row in devices(stage)] == ["GPU-0"]

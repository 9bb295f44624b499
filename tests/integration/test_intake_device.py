"""Reports about devices at a running intake: states, errors, and what no node may report."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import allocate_devices, an_intake, joined

from rankd.services.intake import device_reports

A100 = [{"model": "a100", "id": f"GPU-{number}", "index": number} for number in range(2)]
RESUME = "rankd.v1.admin.root.node.device_resume"
TAKEN = {"id": "GPU-0", "state": "taken", "by": "4711 bob"}
BROKEN = {"id": "GPU-1", "state": "ok", "fault": "XID 79 at 2026-01-01T00:00:00Z"}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


async def a_gpu_node(stage, name="n1", instance="i1"):
    body = {"resources": {"vcore": 2}, "agent": name, "devices": A100, "instance": instance, "confinement": "yes"}
    return await stage.ask(f"rankd.v1.node.{name}.register", body)


def devices(stage, node="n1"):
    query = 'SELECT id, state, taken_by, reason FROM device WHERE node = ? ORDER BY "index"'
    return stage.rows(query, node)


async def test_what_is_reported_is_seen_and_wakes_the_scheduler(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        woken = await stage.connection.subscribe("rankd.v1.internal.committed")
        reply = await stage.ask("rankd.v1.node.n1.device", {"notes": [TAKEN, BROKEN], "instance": "i1"})
        assert reply.body == {"taken": 2}
        assert devices(stage) == [
            ("GPU-0", "taken", "4711 bob", None),
            ("GPU-1", "failed", None, "XID 79 at 2026-01-01T00:00:00Z"),
        ]
        await woken.next_msg(60)
        assert stage.rows("SELECT confinement FROM node") == [("yes",)]
        [(told,)] = stage.rows("SELECT reason FROM node_events WHERE event = 'device'")
        assert told == "gpu 0 is taken; gpu 1 has failed: XID 79 at 2026-01-01T00:00:00Z"


async def test_an_administrator_resumes_a_device_and_a_user_does_not(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        await stage.ask("rankd.v1.node.n1.device", {"notes": [BROKEN], "instance": "i1"})
        wish = {"node": "n1", "device": "GPU-1"}
        refused = await stage.ask("rankd.v1.user.alice.node.device_resume", wish)
        assert refused.status == 403
        assert devices(stage)[1][1] == "failed"
        await a_gpu_node(stage)
        assert devices(stage)[1][1] == "failed", "its agent has only registered again"
        whole = {"command": ["true"], "resources": {"gpu": 2}}
        warned = (await stage.do("job.test", whole)).body["warning"]
        assert "no nodes in partition 'default' can give that at present (n1: gpu 1 failed)" in warned
        assert (await stage.ask(RESUME, wish)).body == {"done": ["n1"], "failed": []}
        assert devices(stage)[1][1] == "ok"
        assert (await stage.do("job.test", whole)).body.get("warning") is None
        again = await stage.ask(RESUME, wish)
        assert (again.status, again.body["code"]) == (409, "not_failed")
        missing = await stage.ask(RESUME, {"node": "n1", "device": "GPU-9"})
        assert (missing.status, missing.body["code"]) == (404, "unknown_device")


async def test_a_failure_is_in_the_log_also_if_an_administrator_reports_it(broker, tmp_path, caplog):
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        wish = {"node": "n1", "device": "1", "reason": "XID 79"}
        missing = await stage.ask("rankd.v1.admin.root.node.device_fail", wish | {"device": "9"})
        assert missing.status == 404
        assert "has failed" not in caplog.text, "what was refused did not happen"
        assert (await stage.ask("rankd.v1.admin.root.node.device_fail", wish)).status is None
        assert "device 1 of node n1 has failed, says root: XID 79; see `rankd diag`" in caplog.messages


async def warning(stage, gpus):
    reply = await stage.do("job.submit", {"command": ["true"], "resources": {"gpu": gpus}})
    assert reply.status is None
    return reply.body.get("warning", "")


async def test_a_job_that_needs_a_failed_device_is_accepted_and_its_user_is_told(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        await stage.ask("rankd.v1.node.n1.device", {"notes": [BROKEN], "instance": "i1"})
        failed = "can give that at present (n1: gpu 1 failed); the job waits until that changes"
        assert failed in await warning(stage, 2)
        assert await warning(stage, 1) == ""
        assert "offers more than 2;" in await warning(stage, 3)
    async with an_intake(broker, tmp_path) as stage:
        assert failed in await warning(stage, 2), "another intake knows the node from the records"
        listed = [A100[0], A100[1] | {"state": "failed"}]
        body = {"resources": {"vcore": 2}, "agent": "n1", "devices": listed, "instance": "i1"}
        assert (await stage.ask("rankd.v1.node.n1.register", body)).status is None
        assert failed in await warning(stage, 2), "its list calls the device failed"
        assert "offers more than 2;" in await warning(stage, 3)


async def test_a_node_reports_about_itself_only(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(device_reports, "LEAST_S", 0.0)
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        await joined(stage, "n2")
        await stage.ask("rankd.v1.node.n2.device", {"notes": [TAKEN, BROKEN]})
        assert [row[1] for row in devices(stage)] == ["ok", "ok"]
        other = await stage.ask("rankd.v1.node.n1.device", {"notes": [TAKEN], "instance": "another"})
        assert (other.status, other.body["code"]) == (409, "node_taken")
        uses = [{"allocation": 17, "id": "GPU-0", "busy": 1.0, "samples": 1}]
        assert (await stage.ask("rankd.v1.node.n1.device", {"uses": uses, "instance": "i1"})).body == {"taken": 1}
        assert stage.rows("SELECT count(*) FROM device_uses") == [(0,)]
        wrong = await stage.ask("rankd.v1.node.n1.device", {"uses": [uses[0] | {"busy": 2.0}], "instance": "i1"})
        assert wrong.body["code"] == "bad_field"
        many = await stage.ask("rankd.v1.node.n1.device", {"notes": [TAKEN] * 257, "instance": "i1"})
        assert many.body["code"] == "too_many"
        long = await stage.ask("rankd.v1.node.n1.device", {"notes": [TAKEN | {"by": "x" * 201}], "instance": "i1"})
        assert long.body["code"] == "too_long"


async def test_a_report_whose_answer_was_lost_counts_once(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(device_reports, "LEAST_S", 0.0)
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        job = await stage.submit("alice")
        allocation = await allocate_devices(stage.path, job, "n1", "GPU-0")
        use = {"allocation": allocation, "id": "GPU-0", "busy": 2.0, "samples": 4}
        for batch in ("a", "a", "b"):
            again = {"uses": [use], "instance": "i1", "batch": batch}
            assert (await stage.ask("rankd.v1.node.n1.device", again)).body == {"taken": 1}
        assert stage.rows("SELECT busy, samples FROM device_uses") == [(4.0, 8)]
        long = await stage.ask("rankd.v1.node.n1.device", {"uses": [use], "instance": "i1", "batch": "a" * 300})
        assert long.body["code"] == "too_long"


async def test_a_node_that_floods_is_refused(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(device_reports, "LEAST_S", 3600.0)
    async with an_intake(broker, tmp_path) as stage:
        await a_gpu_node(stage)
        await a_gpu_node(stage, "n2", "i2")
        first, second = [
            await stage.ask("rankd.v1.node.n1.device", {"notes": [note], "instance": "i1"}) for note in (TAKEN, BROKEN)
        ]
        assert (first.status, second.status, second.body["code"]) == (None, 429, "too_many_requests")
        assert [row[1] for row in devices(stage)] == ["taken", "ok"]
        other = await stage.ask("rankd.v1.node.n2.device", {"notes": [TAKEN], "instance": "i2"})
        assert other.status is None

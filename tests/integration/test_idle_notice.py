"""Jobs that do not use their GPUs: their users are notified by real receivers, then the jobs are ended."""

from __future__ import annotations

import email
import json
import time

import builder
import pytest
from integration.intake_stage import allocate_devices, report, send
from integration.notify_stage import Hook, Mailbox, NotifyStage, a_mail_server, a_site, for_hook

from rankd.services.intake import device_reports

RULE = "[devices]\nidle_notify_s = 600\nidle_cancel_s = 1200\n"
CARD = {"model": "a100", "id": "GPU-0", "index": 0}
NODE = {"resources": {"vcore": 8}, "agent": "gpu1", "devices": [CARD], "instance": "i1"}
STARTED = time.time() - 1500
"""The intake believes no node that a job was idle for longer than it runs."""


@pytest.fixture(autouse=True)
def new_database(tmp_path, monkeypatch):
    monkeypatch.setattr(device_reports, "LEAST_S", 0.0)
    return builder.new_database(tmp_path)


async def runs(stage: NotifyStage, **job) -> tuple[int, int]:
    """A job that runs with the node's GPU; the ids of the job and of its allocation."""
    assert (await stage.ask("rankd.v1.node.gpu1.register", NODE)).status is None
    id_ = await stage.submit("alice", resources={"gpu": 1}, **job)
    allocation = await allocate_devices(stage.path, id_, "gpu1", "GPU-0", at=STARTED)
    await send(stage, "gpu1", report(allocation, id_, "started", at=STARTED))
    await stage.until(lambda: stage.states()[id_] == "running")
    return id_, allocation


async def was_idle(stage: NotifyStage, allocation: int, idle_s: float) -> None:
    use = {"allocation": allocation, "id": "GPU-0", "busy": 0.0, "samples": 30, "idle_s": idle_s}
    reply = await stage.ask("rankd.v1.node.gpu1.device", {"uses": [use], "instance": "i1"})
    assert reply.body == {"taken": 1}


async def test_a_program_hears_once_that_a_job_does_not_use_its_gpus(broker, tmp_path):
    async with Hook(tmp_path) as hook:
        settings = for_hook(hook, tables=RULE)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            job, allocation = await runs(stage, notify={"on": ["idle", "fail"], "to": [hook.url]})
            await was_idle(stage, allocation, 700.0)
            content = json.loads((await hook.got()).body)
            assert (content["job"], content["event"], content["state"]) == (job, "idle", "running")
            assert content["cause"] == "its GPUs were not used for 700 s; it is ended after 1200 s"
            assert (content["nodelist"], content["ended_at"]) == ("gpu1", None)
            await was_idle(stage, allocation, 1000.0)
            await send(stage, "gpu1", report(allocation, job, "ended", at=time.time(), exit_status=1))
            assert json.loads((await hook.got()).body)["event"] == "fail", "the second report is not another notice"


async def test_a_mail_says_that_a_job_does_not_use_its_gpus_and_another_that_it_was_ended(broker, tmp_path):
    mailbox = Mailbox()
    async with a_mail_server(mailbox) as port:
        settings = {"allow": ["mailto:*@example.org"], "smtp": f"smtp://127.0.0.1:{port}", "mail_domain": "example.org"}
        async with a_site(broker, tmp_path, tables=RULE, **settings) as stage, stage.notifier(broker):
            job, allocation = await runs(stage, name="train", notify={"on": ["all"]})
            assert "started (train)" in (await subject(mailbox))
            await was_idle(stage, allocation, 1300.0)
            assert await subject(mailbox) == f"rankd: job {job} does not use its GPUs (train)"
            assert stage.rows("SELECT cancel FROM allocations") == [("idle",)]
            await send(stage, "gpu1", report(allocation, job, "ended", at=time.time(), cause="cancel", signal=15))
            assert await subject(mailbox) == f"rankd: job {job} failed (train)"
            events = (await stage.do("job.history", {"id": job})).body["events"]
            assert [(row["event"], row["cause"]) for row in events][-1] == ("fail", "idle")


async def subject(mailbox: Mailbox) -> str:
    envelope = await mailbox.got()
    assert envelope.rcpt_tos == ["alice@example.org"]
    return email.message_from_bytes(envelope.content, policy=email.policy.default)["Subject"]


async def test_a_job_that_asks_for_other_events_notifies_nobody_and_has_the_event(broker, tmp_path):
    async with Hook(tmp_path) as hook:
        settings = for_hook(hook, tables=RULE)
        async with a_site(broker, tmp_path, **settings) as stage, stage.notifier(broker):
            job, allocation = await runs(stage, notify={"on": ["end"], "to": [hook.url]})
            await was_idle(stage, allocation, 700.0)
            assert stage.rows("SELECT event FROM job_event WHERE job_id = ? ORDER BY id DESC LIMIT 1", job) == [
                ("idle",)
            ]
            await send(stage, "gpu1", report(allocation, job, "ended", at=time.time(), exit_status=0))
            assert json.loads((await hook.got()).body)["event"] == "complete"

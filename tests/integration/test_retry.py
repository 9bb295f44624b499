"""``job.retry`` on a running intake: one new job however often it is asked, with the rights and limits of today."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import allocate, an_intake, report, send, until_state
from integration.stage import CONFIG

SCRIPT = "#!/bin/sh\nexit 1\n"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    async with an_intake(broker, tmp_path, unknown_association='"default"\nmax_pending_per_user = 6') as stage:
        yield stage


async def cancelled(stage, **job: object) -> int:
    id_ = await stage.submit("alice", held=True, **job)
    assert (await stage.do("job.cancel", {"id": id_})).status is None
    return id_


def pending(stage) -> list[int]:
    return [job for (job,) in stage.rows("SELECT id FROM jobs WHERE state = 'pending' ORDER BY id")]


async def test_a_key_is_one_new_job_also_as_a_message_id(stage):
    job = await cancelled(stage)
    first = (await stage.do("job.retry", {"id": job, "key": "k"})).body
    assert (await stage.do("job.retry", {"id": job, "key": "k"})).body == first
    headers = {"Nats-Msg-Id": "m"}
    subject = "rankd.v1.user.alice.job.retry"
    replies = [await stage.connection.request(subject, b'{"id":%d}' % job, headers=headers) for _ in range(2)]
    assert replies[0].data == replies[1].data != b"", replies
    assert b'"id"' in replies[0].data
    assert len(pending(stage)) == 2
    assert stage.rows("SELECT retry_of, held FROM jobs WHERE state = 'pending'") == [(job, 0)] * 2


async def test_script_environment_and_changes_come_along(stage, tmp_path):
    job = await stage.submit("alice", script=SCRIPT, env={"A": "1"}, name="train", held=True)
    await stage.do("job.update", {"id": job, "time_limit_s": 77.0, "qos": "high"})
    await stage.do("job.release", {"id": job})
    allocation = await allocate(tmp_path, job, "n1")
    await stage.connection.request("rankd.v1.node.n1.take", b'{"agent":"n1"}')
    await send(stage, "n1", report(allocation, job, "started"), report(allocation, job, "ended", exit_status=1))
    await until_state(stage, job, "failed")
    new = (await stage.do("job.retry", {"id": job})).body["id"]
    shown = (await stage.do("job.show", {"id": new})).body
    assert {name: shown[name] for name in ("env", "name", "qos", "time_limit_s", "state", "retry_of", "user")} == {
        "env": {"A": "1"}, "name": "train", "qos": "high", "time_limit_s": 77.0, "state": "pending", "retry_of": job,
        "user": "alice",
    }  # fmt: skip
    assert (await stage.do("job.script", {"id": new})).body["script"] == SCRIPT
    assert stage.states()[job] == "failed"


async def test_what_the_rules_of_today_refuse_is_refused(stage, tmp_path):
    job = await cancelled(stage, qos="high", urgency=3)
    text = CONFIG["rankd.toml"].replace('name = "high"', 'name = "high"\nusers = ["bob"]')
    (tmp_path / "config" / "rankd.toml").write_text(text)
    assert (await stage.ask("rankd.v1.admin.root.config.reload", {})).status is None
    refused = await stage.do("job.retry", {"id": job})
    assert (refused.status, refused.body["code"]) == (403, "qos_access")
    by_root = await stage.ask("rankd.v1.admin.root.job.retry", {"id": job})
    assert by_root.body["code"] == "qos_access", "an administrator submits again with the owner's rights"


async def test_the_limits_of_pending_jobs_hold(stage):
    job = await cancelled(stage)
    replies = [await stage.do("job.retry", {"id": job}) for _ in range(12)]
    refused = [reply for reply in replies if reply.status is not None]
    assert len(pending(stage)) == 12 - len(refused) <= 6
    for reply in refused:
        assert (reply.status, reply.body["code"]) == (429, "too_many_pending")
        assert "max_pending_per_user" in reply.body["message"]


async def test_an_administrator_retries_for_the_owner(stage):
    job = await cancelled(stage)
    assert (await stage.do("job.retry", {"id": job}, "bob")).body["code"] == "not_owner"
    new = (await stage.ask("rankd.v1.admin.root.job.retry", {"id": job, "held": True})).body["id"]
    assert stage.rows('SELECT "user", held, held_by FROM jobs WHERE id = ?', new) == [("alice", 1, "root")]
    assert stage.rows("SELECT actor FROM job_events WHERE job_id = ?", new) == [("root",)]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"id": 99}, 404, "unknown_job"),
        ({"id": "1_5"}, 409, "not_ended"),
        ({"id": "1_77"}, 404, "unknown_job"),
        ({"id": 1}, 409, "not_ended"),
        ({"id": "x"}, 400, "bad_job_id"),
        ({"id": 1, "key": "k" * 300}, 400, "too_long"),
        ({"id": 1, "user": "bob"}, 400, "unknown_field"),
        ({}, 400, "missing_field"),
    ],
)
async def test_refusals(stage, body, status, code):
    await stage.submit("alice", array="0-9", held=True)
    refused = await stage.do("job.retry", body)
    assert (refused.status, refused.body["code"]) == (status, code)
    assert len(pending(stage)) == 1


async def test_tasks_that_were_cancelled_are_submitted_as_an_array(stage):
    array = await stage.submit("alice", array="0-9%2", held=True)
    await stage.do("job.cancel", {"id": f"{array}_[3-5]"})
    one = (await stage.do("job.retry", {"id": f"{array}_[3-4]"})).body
    assert one["tasks"] == 2
    await stage.do("job.cancel", {"id": array})
    rest = (await stage.do("job.retry", {"id": array, "failed": True})).body
    assert rest["tasks"] == 10
    rows = stage.rows('SELECT id, "array", array_limit, retry_of FROM jobs WHERE id IN (?, ?)', one["id"], rest["id"])
    assert rows == [(one["id"], "3-4", 2, array), (rest["id"], "0-9", 2, array)]


async def test_what_can_never_start_is_said_with_the_new_job(stage):
    await cancelled(stage, array="0-2")
    waits = [{"type": "aftercorr", "job": 1}]
    await cancelled(stage, array="0-2", depends_on=waits)
    again = (await stage.do("job.retry", {"id": "2_[0,2]"})).body
    said = "tasks 0,2 can never start: aftercorr of array 1, whose tasks of the same indices did not complete; "
    assert (again["tasks"], again["warning"].startswith(said)) == (2, True)
    new = (await stage.do("job.submit", {"command": ["true"], "depends_on": [{"type": "afterok", "job": 1}]})).body
    assert new["warning"].startswith("the job can never start: afterok of job 1 (cancelled); change that with")
    tried = (await stage.do("job.test", {"command": ["true"], "array": "0-2", "depends_on": waits})).body
    assert tried["warning"].startswith("tasks 0-2 can never start: aftercorr of array 1")
    fine = {"command": ["true"], "depends_on": [{"type": "afterany", "job": 1}]}
    assert "warning" not in (await stage.do("job.submit", fine)).body

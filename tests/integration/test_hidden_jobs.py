"""What a user can learn of hidden jobs by naming them in requests that change something: nothing.

Dependencies, names of tasks, descendants and retries, asked of a running intake over a real broker.
"""

from __future__ import annotations

import json

import builder
import pytest
from integration.intake_stage import an_intake
from integration.stage import CONFIG

JOB = {"command": ["true"], "held": True}
HIDDEN = ("counts", "own")


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    """Jobs of alice: 1 waits, 2 is cancelled, 3 is an array of 0 to 9 of which the tasks 4 to 9 are cancelled."""
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit("alice", held=True)
        await stage.submit("alice", held=True)
        await stage.do("job.cancel", {"id": 2})
        await stage.submit("alice", array="0-9", held=True)
        await stage.do("job.cancel", {"id": "3_[4-9]"})
        yield stage


async def see(stage, tmp_path, jobs: str) -> None:
    text = CONFIG["rankd.toml"] + f'[privacy]\njobs = "{jobs}"\n'
    (tmp_path / "config" / "rankd.toml").write_text(text)
    assert (await stage.ask("rankd.v1.admin.root.config.reload", {})).status is None


def waiting(kind: str, job: int | str) -> dict:
    return {**JOB, "depends_on": [{"type": kind, "job": job}]}


async def refusal(stage, verb: str, body: dict, name: object, user: str = "bob") -> str:
    """The whole answer, with the name of the job replaced."""
    reply = await stage.do(verb, body, user)
    return json.dumps([reply.status, reply.error, reply.body]).replace(str(name), "NAME")


@pytest.mark.parametrize("jobs", HIDDEN)
async def test_a_hidden_job_can_be_waited_for_as_little_as_one_that_does_not_exist(stage, tmp_path, jobs):
    await see(stage, tmp_path, jobs)
    own = await stage.submit("bob", held=True, name="own")
    for kind in ("afterok", "afternotok", "afterany", "after", "aftercorr"):
        for array in ({}, {"array": "0-9"}, {"array": "0-3"}):
            unknown = await refusal(stage, "job.submit", {**waiting(kind, 7777), **array}, 7777)
            assert "unknown_dependency" in unknown
            for name in (1, 2, 3, "3_1", "3_9", "3_200"):
                body = {**waiting(kind, name), **array, "cancel_if_unmet": True}
                assert await refusal(stage, "job.submit", body, f"job {name}") == unknown.replace("job NAME", "NAME")
    for name in (1, 2, 3, "3_1", "3_9", "3_200"):
        body = {"id": own, "depends_on": waiting("afterany", name)["depends_on"]}
        reply = await stage.do("job.update", body, "bob")
        assert (reply.status, reply.body["code"]) == (404, "unknown_dependency"), name
    assert stage.rows("SELECT * FROM job_waits") == []


async def test_in_a_list_and_in_an_enqueued_submission_too(stage, tmp_path):
    await see(stage, tmp_path, "own")
    own = await stage.submit("bob", held=True)
    batch = (await stage.do("job.submit", {"jobs": [waiting("afterany", name) for name in (1, own, 2)]}, "bob")).body
    assert [one["code"] for one in batch["rejected"]] == ["unknown_dependency"] * 2
    assert len(batch["accepted"]) == 1, "one's own job can be named"
    payload = json.dumps(waiting("afterany", 2)).encode()
    await stage.connection.jetstream().publish("rankd.v1.enqueue.bob", payload)
    await stage.until(lambda: stage.rows("SELECT 1 FROM dead_letters"))
    assert stage.rows("SELECT code FROM dead_letters") == [("unknown_dependency",)]


async def test_administrators_and_users_who_see_all_name_any_job(stage, tmp_path):
    assert (await stage.do("job.submit", waiting("afterany", 1), "bob")).status is None
    await see(stage, tmp_path, "own")
    body = {**waiting("afterany", 1), "user": "bob"}
    assert (await stage.ask("rankd.v1.admin.root.job.submit", body)).status is None
    assert len(stage.rows("SELECT * FROM job_waits")) == 2, "what was accepted stays"


async def test_a_retry_looks_with_the_owners_eyes_also_for_an_administrator(stage, tmp_path):
    waits = (await stage.do("job.submit", {**waiting("afterok", 1), "held": False}, "bob")).body["id"]
    await stage.do("job.cancel", {"id": waits}, "bob")
    await see(stage, tmp_path, "own")
    for subject in ("rankd.v1.admin.root", "rankd.v1.user.bob"):
        assert (await stage.ask(f"{subject}.job.retry", {"id": waits})).body["code"] == "unknown_dependency"


@pytest.mark.parametrize("verb", ["job.cancel", "job.hold", "job.release", "job.update"])
async def test_no_task_of_a_hidden_array_can_be_told_from_another(stage, tmp_path, verb):
    await see(stage, tmp_path, "own")
    await stage.ask("rankd.v1.admin.root.job.release", {"id": "3_1"})  # a record of its own
    more = {"comment": "x"} if verb == "job.update" else {}
    for dry in ({"dry_run": True}, {}):
        whole = (await stage.do(verb, {"ids": [3], **more, **dry}, "bob")).body
        assert [(one["id"], one["code"]) for one in whole["failed"]] == [(3, "not_owner")]
        named = (await stage.do(verb, {"ids": ["3_[0-20]"], **more, **dry}, "bob")).body
        assert named["done"] == []
        assert [(one["id"], one["code"]) for one in named["failed"]] == [(f"3_{no}", "not_owner") for no in range(21)]
        assert len({one["message"].replace(one["id"], "NAME") for one in named["failed"]}) == 1
        single = (await stage.do(verb, {"ids": ["1_5"], **more, **dry}, "bob")).body
        assert [(one["id"], one["code"]) for one in single["failed"]] == [("1_5", "not_owner")]
    assert stage.states()[3] == "pending"


@pytest.mark.parametrize("verb", ["job.show", "job.why", "job.when", "job.history", "job.retry", "job.script"])
async def test_nor_by_what_looks(stage, tmp_path, verb):
    await see(stage, tmp_path, "own")
    answers = {await refusal(stage, verb, {"id": f"3_{no}"}, f"3_{no}") for no in (1, 9, 200)}
    assert len(answers) == 1
    assert "not_owner" in answers.pop()


async def test_descendants_of_another_users_job_stay_if_that_job_stays(stage):
    own = (await stage.do("job.submit", waiting("afterany", 1), "bob")).body["id"]
    refused = await stage.do("job.cancel", {"id": 1, "descendants": True}, "bob")
    assert (refused.status, refused.body["code"]) == (403, "not_owner")
    assert stage.states()[own] == "pending", "a request that is refused changes nothing"
    both = (await stage.do("job.cancel", {"ids": [1], "descendants": True}, "bob")).body
    assert (both["done"], [one["code"] for one in both["failed"]]) == ([], ["not_owner"])


async def test_the_owner_hears_nothing_of_other_users_descendants_and_ends_none(stage):
    foreign = (await stage.do("job.submit", waiting("afterany", 1), "bob")).body["id"]
    behind = (await stage.do("job.submit", waiting("afterany", foreign), "alice")).body["id"]
    own = (await stage.do("job.submit", waiting("afterany", 1), "alice")).body["id"]
    reply = await stage.do("job.cancel", {"id": 1, "descendants": True})
    assert reply.body == {"done": [1, own], "failed": []}
    assert (stage.states()[foreign], stage.states()[behind]) == ("pending", "pending")
    reply = await stage.ask("rankd.v1.admin.root.job.cancel", {"id": 1, "descendants": True})
    assert sorted(reply.body["done"]) == [foreign, behind], "an administrator's request ends all of them"

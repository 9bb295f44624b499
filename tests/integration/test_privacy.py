"""What users see of others' jobs, asked of a running intake over a real broker."""

from __future__ import annotations

import json

import builder
import pytest
from integration.intake_stage import an_intake
from integration.stage import CONFIG

SECRET = "a-secret-of-bob"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
async def stage(broker, tmp_path):
    """An intake with job 1 of alice, and 2 (pending) and 3 (cancelled) of bob, whose values have the secret."""
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit("alice", name="mine", env={"E": "env-of-alice"})
        for _ in range(2):
            await stage.submit("bob", name=SECRET, comment=SECRET, env={"E": "env-of-bob"}, cwd=f"/{SECRET}")
        await stage.do("job.cancel", {"id": 3}, "bob")
        yield stage


async def see(stage, tmp_path, jobs: str) -> None:
    text = CONFIG["rankd.toml"] + f'[privacy]\njobs = "{jobs}"\n'
    (tmp_path / "config" / "rankd.toml").write_text(text)
    assert (await stage.ask("rankd.v1.admin.root.config.reload", {})).status is None


LISTS = ("job.list", "job.acct", "priority.list")


async def listed(stage, verb: str, wanted: dict | None = None, user: str = "alice") -> dict[int, dict]:
    reply = await stage.do(verb, wanted or {}, user)
    assert reply.status is None, reply
    return {row["id"]: row for row in reply.body["jobs"]}


async def test_everything_is_shown_by_default_but_no_environment(stage):
    assert (await listed(stage, "job.list"))[2]["name"] == SECRET
    assert (await stage.do("job.show", {"id": 2})).body["comment"] == SECRET
    every = [
        *[await stage.do(verb, {}) for verb in (*LISTS, "share.list", "queue.list", "job.events", "deadletter.list")],
        *[await stage.do(verb, {"id": 2}) for verb in ("job.show", "job.why", "job.when", "job.history")],
        await stage.do("job.list", {}, "bob"),
    ]
    assert not [reply for reply in every if "env-of-bob" in json.dumps(reply.body) or reply.status]
    assert (await stage.do("job.show", {"id": 2}, "bob")).body["env"] == {"E": "env-of-bob"}
    assert (await stage.ask("rankd.v1.admin.root.job.show", {"id": 2})).body["env"] == {"E": "env-of-bob"}
    listed_to_root = await stage.ask("rankd.v1.admin.root.job.list", {})
    assert "env-of-bob" not in json.dumps(listed_to_root.body)


@pytest.mark.parametrize("jobs", ["counts", "own"])
async def test_nothing_that_is_hidden_is_in_any_answer(stage, tmp_path, jobs):
    await see(stage, tmp_path, jobs)
    replies = [await stage.do(verb, {}) for verb in (*LISTS, "share.list", "queue.list", "node.list", "job.events")]
    replies += [await stage.do(verb, {"id": 1}) for verb in ("job.show", "job.why", "job.when", "job.history")]
    assert not [reply.status for reply in replies if reply.status]
    told = json.dumps([reply.body for reply in replies])
    assert "bob" not in told
    assert SECRET not in told
    for verb in ("job.show", "job.why", "job.when", "job.history"):
        refused = await stage.do(verb, {"id": 2})
        assert (refused.status, refused.body["code"]) == (403, "not_owner")
        assert "bob" not in json.dumps(refused.body)
        assert (await stage.ask(f"rankd.v1.admin.root.{verb}", {"id": 2})).status is None
    for verb in ("job.cancel", "job.hold", "job.update"):
        refused = await stage.do(verb, {"id": 2, **({"comment": "x"} if verb == "job.update" else {})})
        assert refused.body["code"] == "not_owner"
        assert "bob" not in json.dumps(refused.body)
    for kind in ("gap", "whatif"):
        refused = await stage.do("report.make", {"kind": kind, "job": 2})
        assert refused.body["code"] == "admins_only"


async def test_counts_shows_that_jobs_are_there_and_own_does_not(stage, tmp_path):
    await see(stage, tmp_path, "counts")
    rows = await listed(stage, "job.list")
    assert [(id_, row["user"], row["name"], row["state"]) for id_, row in sorted(rows.items())] == [
        (1, "alice", "mine", "pending"),
        (2, None, None, "pending"),
        (3, None, None, "cancelled"),
    ]
    assert (rows[2]["queue"], rows[2]["cores"], rows[2]["comment"]) == ("root.default", 1.0, None)
    assert (await stage.do("job.list", {"count": True, "limit": 1})).body["total"] == 3
    await see(stage, tmp_path, "own")
    for verb in ("job.list", "job.acct"):
        assert set(await listed(stage, verb)) == {1}
        assert set(await listed(stage, verb, {"ids": [2, 3]})) == set()
    assert (await stage.do("job.list", {"count": True, "limit": 1})).body["total"] == 1
    assert set((await stage.ask("rankd.v1.admin.root.job.list", {})).body) == {"jobs"}
    assert len((await stage.ask("rankd.v1.admin.root.job.list", {})).body["jobs"]) == 3


@pytest.mark.parametrize("jobs", ["counts", "own"])
async def test_no_filter_finds_what_is_hidden(stage, tmp_path, jobs):
    await see(stage, tmp_path, jobs)
    for verb in LISTS:
        for users in (["bob"], ["alice", "bob"], ["nobody"]):
            refused = await stage.do(verb, {"users": users})
            assert (refused.status, refused.body["code"]) == (403, "admins_only"), users
        for wanted in ({"names": [SECRET]}, {"accounts": ["physics"]}, {"qos": ["normal"]}):
            assert not set(await listed(stage, verb, wanted)) & {2, 3}, wanted
    assert set(await listed(stage, "job.list", {"users": ["alice"]})) == {1}
    shares = (await stage.do("share.list", {})).body["shares"]
    assert {row["user"] for row in shares} == {None, "alice"}
    assert {row["user"] for row in (await stage.do("share.list", {}, "bob")).body["shares"]} == {None, "bob"}


async def test_pages_of_shares_end_with_the_last_visible_one(stage, tmp_path):
    await see(stage, tmp_path, "own")
    found, request = [], {"limit": 1}
    while True:
        body = (await stage.do("share.list", request)).body
        found += [(row["account"], row["user"]) for row in body["shares"]]
        if "next" not in body:
            break
        request = {"limit": 1, **body["next"]}
    assert ("physics", "alice") in found
    assert len(found) == len(set(found))
    assert not [pair for pair in found if pair[1] not in (None, "alice")]

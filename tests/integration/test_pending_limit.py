"""The limits of pending jobs on a running intake: each way in, many at once, after a restart, and when room is free."""

from __future__ import annotations

import asyncio
import json

import builder
import pytest
from integration.intake_stage import allocate, an_intake
from integration.stage import CONFIG
from query_plan import plans

from rankd.store.engine.url import open_database
from rankd.store.record.pending_count import count_pending

JOB = {"command": ["true"]}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
def limited(broker, tmp_path):
    """Starts an intake with 10 pending jobs per user, and 25 in all."""
    rule = '"default"\nmax_pending_per_user = 10\nmax_pending = 25'
    return lambda: an_intake(broker, tmp_path, unknown_association=rule)


def pending(stage) -> dict[str, int]:
    return dict(stage.rows("SELECT \"user\", count(*) FROM jobs WHERE state = 'pending' GROUP BY 1"))


async def test_the_limit_holds_for_each_way_in_and_after_a_restart(limited):
    async with limited() as stage:
        for _ in range(8):
            await stage.submit("alice")
        batch = await stage.do("job.submit", {"jobs": [JOB] * 5})
        assert [entry["index"] for entry in batch.body["accepted"]] == [0, 1]
        assert {(entry["index"], entry["code"]) for entry in batch.body["rejected"]} == {
            (place, "too_many_pending") for place in (2, 3, 4)
        }
        refused = await stage.do("job.submit", JOB)
        assert (refused.status, refused.body["code"]) == (429, "too_many_pending")
        assert "admission.max_pending_per_user" in refused.body["message"]
    async with limited() as stage:
        assert (await stage.do("job.submit", JOB)).status == 429
        assert (await stage.ask("rankd.v1.admin.root.job.submit", {**JOB, "user": "alice"})).status == 429
        whole = await stage.do("job.submit", {"jobs": [JOB] * 11, "atomic": True}, "bob")
        assert (whole.status, pending(stage).get("bob")) == (429, None)
        assert (await stage.do("job.submit", {"jobs": [JOB] * 3})).status == 429
        await stage.connection.jetstream().publish("rankd.v1.enqueue.alice", json.dumps(JOB).encode())
        await stage.until(lambda: stage.rows("SELECT code FROM dead_letters") == [("too_many_pending",)])
        assert pending(stage) == {"alice": 10}


async def test_counting_reads_no_other_jobs(tmp_path):
    def steps(connection):
        with plans(connection) as found:
            assert (count_pending(connection), count_pending(connection, "alice")) == (0, 0)
        return [step for _, steps in found for step in steps]

    async with open_database(tmp_path / "rankd.db") as database:
        counted = await database.read(steps)
    assert len(counted) == 2
    assert all(step.startswith("SEARCH jobs USING COVERING INDEX") for step in counted)


async def test_submissions_at_the_same_time_pass_no_limit_together(limited):
    async with limited() as stage:
        users = ["alice", "bob", "carol"] * 30
        replies = await asyncio.gather(*(stage.do("job.submit", JOB, user) for user in users))
        assert sum(reply.status is None for reply in replies) == sum(pending(stage).values()) == 25
        assert {reply.status for reply in replies} == {None, 429}
        assert max(pending(stage).values()) <= 10


async def test_the_answer_to_the_largest_list_fits_into_a_message(limited):
    """With the 1 MB that a nats-server allows by default."""
    async with limited() as stage:
        assert stage.connection.max_payload == 2**20
        reply = await stage.do("job.submit", {"jobs": [JOB] * 10_000})
        assert [len(reply.body[name]) for name in ("accepted", "rejected")] == [10, 9990]
        assert "admission.max_pending_per_user" in reply.body["rejected"][0]["message"]
        assert reply.body["rejected"][-1]["message"] == "as for the job with index 10"


async def test_jobs_that_start_or_end_make_room(limited, tmp_path):
    async with limited() as stage:
        ids = [await stage.submit("alice") for _ in range(10)]
        assert (await stage.do("job.submit", JOB)).status == 429
        await stage.do("job.cancel", {"id": ids[0]})
        await allocate(tmp_path, ids[1], "n1")

        async def found() -> bool:
            return (await stage.do("job.submit", JOB)).status is None

        for _ in range(2):
            while not await found():
                await asyncio.sleep(0.1)
        assert (await stage.do("job.submit", JOB)).status == 429
        assert pending(stage) == {"alice": 10}


async def test_a_repeated_submission_is_answered_also_at_the_limit(limited):
    async with limited() as stage:
        first = await stage.do("job.submit", {**JOB, "key": "k"})
        for _ in range(9):
            await stage.submit("alice")
        assert (await stage.do("job.submit", {**JOB, "key": "k"})).body == first.body
        assert (await stage.do("job.submit", {**JOB, "key": "new"})).status == 429


@pytest.fixture
def two_accounts(broker, tmp_path, monkeypatch):
    """Starts an intake with 5 pending jobs per account; alice and bob may use both."""
    users = "users: [{name: alice}, {name: bob}]"
    accounts = f"accounts: [{{name: physics, {users}}}, {{name: biology, {users}}}]\n"
    monkeypatch.setitem(CONFIG, "accounts.yaml", accounts)
    return lambda: an_intake(broker, tmp_path, unknown_association='"default"\nmax_pending_per_account = 5')


def in_accounts(stage) -> dict[str, int]:
    query = """SELECT account, count(*) FROM jobs JOIN associations ON associations.id = association_id
               WHERE state = 'pending' GROUP BY 1"""
    return dict(stage.rows(query))


async def move(stage, account: str, user: str = "alice", **selection):
    return await stage.do("job.update", {**selection, "account": account}, user)


async def test_a_job_that_is_moved_to_an_account_counts_there_as_a_new_one_does(two_accounts):
    async with two_accounts() as stage:
        for account, number in (("physics", 4), ("biology", 3)):
            await stage.do("job.submit", {"jobs": [{**JOB, "account": account}] * number})
        moved = await move(stage, "physics", ids=[5, 6, 7])
        assert moved.body["done"] == [5]
        assert {(one["id"], one["code"]) for one in moved.body["failed"]} == {
            (6, "too_many_pending"),
            (7, "too_many_pending"),
        }
        assert in_accounts(stage) == {"physics": 5, "biology": 2}
    async with two_accounts() as stage:
        refused = await move(stage, "physics", id=6)
        assert (refused.status, refused.body["code"]) == (429, "too_many_pending")
        assert "account 'physics' has 5 pending jobs" in refused.body["message"]
        assert "admission.max_pending_per_account" in refused.body["message"]
        assert (await stage.ask("rankd.v1.admin.root.job.update", {"id": 6, "account": "physics"})).status == 429
        assert (await stage.do("job.update", {"id": 1, "account": "physics", "comment": "stays"})).status is None
        assert (await stage.do("job.submit", {**JOB, "account": "physics"}, "bob")).status == 429
        assert (await stage.do("job.submit", {**JOB, "account": "biology"}, "bob")).status is None
        assert in_accounts(stage) == {"physics": 5, "biology": 3}
        await stage.do("job.cancel", {"id": 1})
        while (await move(stage, "physics", id=6)).status is not None:
            await asyncio.sleep(0.1)
        assert in_accounts(stage) == {"physics": 5, "biology": 2}


async def test_moves_and_submissions_at_the_same_time_pass_no_limit_together(two_accounts):
    async with two_accounts() as stage:
        for user in ("alice", "bob"):
            await stage.do("job.submit", {"jobs": [{**JOB, "account": "physics"}] * 2}, user)
        asked = [move(stage, "biology", "alice" if job < 3 else "bob", id=job) for job in (1, 2, 3, 4)]
        asked += [stage.do("job.submit", {**JOB, "account": "biology"}) for _ in range(6)]
        replies = await asyncio.gather(*asked)
        assert in_accounts(stage)["biology"] == 5
        assert sum(reply.status is None for reply in replies) == 5
        assert {reply.status for reply in replies} == {None, 429}


@pytest.fixture
def few_tasks(broker, tmp_path, monkeypatch):
    """Starts an intake with limits of tasks; three users may use both accounts."""
    users = "users: [{name: alice}, {name: bob}, {name: carol}]"
    accounts = f"accounts: [{{name: physics, {users}}}, {{name: biology, {users}}}]\n"
    monkeypatch.setitem(CONFIG, "accounts.yaml", accounts)
    limits = "per_user = 25\nmax_pending_tasks_per_account = 30\nmax_pending_tasks = 45"
    rule = f'"default"\nmax_pending_tasks_{limits}\nmax_pending_per_user = 8'
    return lambda: an_intake(broker, tmp_path, unknown_association=rule)


def array(listed: str, account: str = "physics") -> dict:
    return {**JOB, "array": listed, "account": account, "held": True}


async def refused(stage, verb: str, body: dict, user: str = "alice") -> str:
    """The setting in the refusal."""
    reply = await stage.do(verb, body, user)
    assert (reply.status, reply.body["code"]) == (429, "too_many_pending"), reply
    return reply.body["message"].split("admission.")[1].split()[0]


async def test_tasks_have_limits_per_user_per_account_and_in_all_for_each_way_in(few_tasks):
    async with few_tasks() as stage:
        first = await stage.do("job.submit", array("0-19"))
        assert await refused(stage, "job.submit", array("0-5")) == "max_pending_tasks_per_user"
        assert await refused(stage, "job.submit", array("0-10"), "bob") == "max_pending_tasks_per_account"
        assert (await stage.do("job.submit", array("0-19", "biology"), "bob")).status is None
        assert await refused(stage, "job.submit", array("0-5", "biology"), "carol") == "max_pending_tasks"
        moved = {"id": first.body["id"], "account": "biology"}
        assert await refused(stage, "job.update", moved) == "max_pending_tasks_per_account"
    async with few_tasks() as stage:  # the numbers are read from the records
        await stage.do("job.cancel", {"id": f"{first.body['id']}_[0-4]"})
        old = {"id": f"{first.body['id']}_[0-4]"}
        assert (await stage.do("job.retry", {**old, "held": True})).status is None
        while (await stage.do("job.submit", array("0-4"))).status is not None:
            await asyncio.sleep(0.1)  # the cancelled tasks make room once they are counted again
        assert await refused(stage, "job.retry", {**old, "held": True}) == "max_pending_tasks_per_user"


@pytest.mark.parametrize(("verb", "more"), [("job.hold", {}), ("job.release", {}), ("job.update", {"comment": "x"})])
async def test_tasks_that_are_named_alone_count_as_jobs(few_tasks, verb, more):
    async with few_tasks() as stage:
        job = (await stage.do("job.submit", array("0-19"))).body["id"]
        assert len((await stage.do(verb, {"id": f"{job}_[0-5]", **more})).body["done"]) == 6
        assert await refused(stage, verb, {"id": f"{job}_[6-15]", **more}) == "max_pending_per_user"
        assert (await stage.do(verb, {"id": f"{job}_[6-15]", **more}, "bob")).body["code"] == "not_owner"
        assert (await stage.do(verb, {"id": f"{job}_6", **more})).status is None
        assert await refused(stage, "job.submit", JOB) == "max_pending_per_user"
        assert len((await stage.do("job.cancel", {"id": f"{job}_[7-15]"})).body["done"]) == 9
        assert pending(stage) == {"alice": 8}

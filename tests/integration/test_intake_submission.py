"""Submitting to a running intake: what is stored, what is refused, and what a key means."""

from __future__ import annotations

import asyncio

import builder
import nats.errors
import pytest
from integration.intake_stage import (
    JOB,
    an_intake,
    options_of,
)


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


MANY = 10_000


async def test_a_job_is_stored_as_it_was_submitted_with_its_first_event(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(name="one", queue="root.small", qos="high", time_limit_s=60)
        assert stage.rows("SELECT id, name, queue, qos, state, time_limit_s FROM job") == [
            (job, "one", "root.small", "high", "pending", 60.0)
        ]
        assert stage.rows("SELECT event, state, actor FROM job_event") == [("submit", "pending", "alice")]


async def test_a_batch_is_judged_one_by_one(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", {"jobs": [JOB, {"command": []}, JOB, {**JOB, "qeue": "x"}, 5]})
        assert reply.status is None
        assert reply.body["accepted"] == [{"index": 0, "id": 1}, {"index": 2, "id": 2}]
        refused = [(entry["index"], entry["code"], entry["field"]) for entry in reply.body["rejected"]]
        assert refused == [(1, "empty_command", "command"), (3, "unknown_field", "qeue"), (4, "bad_field", None)]
        assert len(stage.states()) == 2


async def test_an_atomic_batch_is_taken_whole_or_not_at_all(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", {"jobs": [JOB, {"command": []}], "atomic": True})
        assert reply.body["accepted"] == []
        assert [entry["index"] for entry in reply.body["rejected"]] == [1]
        assert stage.states() == {}
        reply = await stage.do("job.submit", {"jobs": [JOB, JOB], "atomic": True})
        assert reply.body == {"accepted": [{"index": 0, "id": 1}, {"index": 1, "id": 2}], "rejected": []}


async def test_ten_thousand_jobs_fit_in_one_message_and_one_more_do_not(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", {"jobs": [JOB] * MANY})
        assert [entry["id"] for entry in reply.body["accepted"]] == list(range(1, MANY + 1))
        assert stage.rows("SELECT count(*), count(DISTINCT job_id) FROM job_events") == [(MANY, MANY)]
        refused = await stage.do("job.submit", {"jobs": [JOB] * (MANY + 1)})
        assert (refused.status, refused.body["code"]) == (413, "too_many_jobs")
        listed = await stage.do("job.list")
        assert [entry["id"] for entry in listed.body["jobs"]] == list(range(MANY, MANY - 1000, -1))
        assert listed.body["next"] == {"before": MANY - 999}
        assert len((await stage.do("job.list", {"limit": 10})).body["jobs"]) == 10


async def test_a_large_batch_lets_others_in_between(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage, asyncio.TaskGroup() as group:
        large = group.create_task(stage.do("job.submit", {"jobs": [JOB] * MANY}))
        await asyncio.sleep(0)  # it is sent first
        assert await stage.submit("bob") < MANY
        assert len((await large).body["accepted"]) == MANY


async def test_a_message_that_the_broker_does_not_take_is_never_sent(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        with pytest.raises(nats.errors.MaxPayloadError):
            await stage.do("job.submit", {"jobs": [JOB], "atomic": "x" * stage.connection.max_payload})
        assert await stage.submit()


async def test_a_job_that_could_not_be_sent_to_its_node_is_not_taken(broker, tmp_path):
    large = {**JOB, "env": {"X": '"' * 120_000}, "cwd": "x" * 60_000}  # twice as long as JSON
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", large)
        assert (reply.status, reply.body["code"]) == (413, "too_large")
        batch = await stage.do("job.submit", {"jobs": [JOB, large]})
        assert [entry["code"] for entry in batch.body["rejected"]] == ["too_large"]
        update = await stage.do("job.update", {"id": 1, "comment": "x" * 300_000})
        assert (update.status, update.body["code"]) == (400, "too_long")
        assert stage.rows("SELECT id, comment FROM jobs") == [(1, None)]


UNREADABLE = {
    "nothing": (b"", "bad_request"),
    "torn": (b'{"command": ["true"]', "bad_request"),
    "a list": (b"[1]", "bad_field"),
    "no utf-8": (b'{"command": ["\xff"]}', "bad_request"),
    "half a surrogate pair": (b'{"command": ["\\ud800"]}', "bad_request"),
    "a wrong type": (b'{"command": "true"}', "bad_field"),
    "no command": (b"{}", "missing_field"),
    "no list of jobs": (b'{"jobs": null}', "bad_field"),
    "too deep": (b'{"command": ' + b"[" * 100_000, "bad_request"),
    "too large a number": (b'{"command": ["true"], "resources": {"vcore": 1' + b"0" * 30 + b"}}", "bad_quantity"),
    "NUL": (b'{"command": ["a\\u0000b"]}', "bad_text"),
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_can_not_be_read_is_refused_with_a_code_and_harms_nobody(broker, tmp_path, name):
    payload, code = UNREADABLE[name]
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", payload)
        assert (reply.status, reply.body["code"]) == (400, code)
        assert reply.error == " ".join(reply.body["message"].split())[:500]
        assert await stage.submit() == 1


BEYOND_64_BITS = {
    "job.show": {"id": 2**64},
    "job.history": {"id": 2**64},
    "job.events": {"after": 2**64, "jobs": [2**64]},
    "job.list": {"limit": 2**64},
    "priority.list": {"limit": 2**64},
    "job.cancel": {"ids": [2**64], "filter": {"limit": 2**64}},
    "job.hold": {"id": -(2**64)},
    "job.update": {"id": 2**64, "comment": "x"},
}


@pytest.mark.parametrize("verb", BEYOND_64_BITS)
async def test_a_number_beyond_64_bits_harms_nobody(broker, tmp_path, verb):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do(verb, BEYOND_64_BITS[verb])
        assert reply.status in (None, 400, 404)
        assert await stage.submit() == 1


async def test_letters_of_all_alphabets_come_back_in_names_and_errors(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(name="Größe 測試", comment="ü")
        assert (await stage.do("job.show", {"id": job})).body["name"] == "Größe 測試"
        refused = await stage.do("job.submit", {**JOB, "queue": "root.größe\nzwei"})
        assert "root.größe\nzwei" in refused.body["message"]
        assert (refused.status, "root.größe zwei" in refused.error) == (400, True)


async def test_a_key_sent_fifty_times_at_once_is_one_job(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        requests = [stage.do("job.submit", {**JOB, "key": "k"}) for _ in range(50)]
        assert {reply.body["id"] for reply in await asyncio.gather(*requests)} == {1}
        assert stage.rows("SELECT count(*) FROM job_events") == [(1,)]


async def test_a_key_is_one_job_within_a_batch_and_across_restarts_but_not_across_users(broker, tmp_path):
    keyed = [{**JOB, "key": "k"}, {**JOB, "key": "k", "name": "other"}, {**JOB, "key": "l"}]
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", {"jobs": keyed})
        assert [entry["id"] for entry in reply.body["accepted"]] == [1, 1, 2]
        assert stage.rows("SELECT id, name FROM jobs") == [(1, "true"), (2, "true")]
    async with an_intake(broker, tmp_path) as stage:
        assert await stage.submit(key="k") == 1
        assert await stage.submit("bob", key="k") == 3


async def test_two_hundred_new_users_at_once_all_get_their_association(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        users = [f"new{number}" for number in range(200)]
        ids = await asyncio.gather(*[stage.submit(user) for user in users])
        assert len(set(ids)) == 200
        assert stage.rows("""SELECT count(*) FROM associations WHERE "user" LIKE 'new%'""") == [(200,)]


async def test_zero_cores_hold_a_tenth_of_one_where_they_are_allowed(broker, tmp_path):
    options = options_of(broker, tmp_path)
    zero = {**JOB, "resources": {"vcore": 0}}
    async with an_intake(broker, tmp_path) as stage:
        assert (await stage.do("job.submit", zero)).body["code"] == "zero_cores"
        settings = options.config / "rankd.toml"
        settings.write_text(settings.read_text().replace("[admission]", "[admission]\nallow_zero_cores = true"))
        reload = await stage.ask("rankd.v1.admin.root.config.reload", {})
        assert reload.status is None, reload
        assert (await stage.do("job.submit", zero)).status is None
        assert stage.rows("SELECT vcore, resources FROM jobs") == [(100, '{"vcore": 100}')]


async def test_jobs_may_ask_for_what_nodes_offer(broker, tmp_path):
    gpu = {**JOB, "resources": {"gpu": 1}}
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.do("job.submit", gpu)
        assert (reply.body["code"], reply.body["field"]) == ("unknown_resource", "resources.gpu")
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2, "gpu": 4}, "agent": "n1"})
        assert (await stage.do("job.submit", gpu)).body == {"id": 1}
    async with an_intake(broker, tmp_path) as stage:
        assert (await stage.do("job.submit", gpu)).body == {"id": 2}


async def test_a_job_that_waits_for_one_that_does_not_exist_is_refused(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()

        def waiting(*ids):
            return {**JOB, "depends_on": [{"type": "afterok", "job": id_} for id_ in ids]}

        reply = await stage.do("job.submit", waiting(job, 4711))
        assert (reply.status, reply.body["code"], reply.body["field"]) == (404, "unknown_dependency", "depends_on")
        assert "4711" in reply.body["message"]
        batch = (await stage.do("job.submit", {"jobs": [JOB, waiting(2), waiting(job), {}]})).body
        assert [(one["index"], one["code"]) for one in batch["rejected"]] == [
            (1, "unknown_dependency"), (3, "missing_field")
        ]  # fmt: skip
        assert [(one["index"], one["id"]) for one in batch["accepted"]] == [(0, 2), (2, 3)]
        atomic = (await stage.do("job.submit", {"jobs": [JOB, waiting(99)], "atomic": True})).body
        assert atomic["accepted"] == []
        other = await stage.do("job.submit", waiting(job), "bob")
        assert other.status is None
        update = await stage.do("job.update", {"id": 2, "depends_on": [{"type": "afterok", "job": 99}]})
        assert (update.status, update.body["code"]) == (404, "unknown_dependency")

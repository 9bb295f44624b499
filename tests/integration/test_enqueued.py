"""Durable submission: what is published on the enqueue subject becomes jobs, or dead letters with their reason."""

from __future__ import annotations

import asyncio
import json
import time

import builder
import nats
import nats.js.errors
import pytest
from integration.intake_stage import Stage, an_intake, options_of
from integration.stage import PATIENCE_S, a_cluster, connected, ready, running

from rankd.bus.connection import Bus
from rankd.bus.stream import ensure_streams
from rankd.core.errors import Unavailable
from rankd.services.intake.durable_submission import EnqueuedSubmissions
from rankd.services.intake.intake import Intake
from rankd.services.intake.service import run

JOB = {"command": ["true"]}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def enqueue(connection: nats.NATS, body: object, user: str = "alice", message_id: str | None = None) -> None:
    """As any client does it; returns once the broker has it."""
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Nats-Msg-Id": message_id} if message_id else None
    await connection.jetstream().publish(f"rankd.v1.enqueue.{user}", payload, headers=headers)


async def heard(stage: Stage, subject: str, count: int) -> list[dict]:
    """The first so many messages that a stream has, or will have, on a subject."""
    subscription = await stage.connection.jetstream().subscribe(subject, ordered_consumer=True)
    messages = [await subscription.next_msg(timeout=PATIENCE_S) for _ in range(count)]
    await subscription.unsubscribe()
    return [json.loads(message.data) for message in messages]


async def test_what_is_enqueued_while_nobody_runs_becomes_jobs_later_in_order(broker, tmp_path):
    async with Bus(broker.url, "test") as bus:
        await ensure_streams(bus)
    async with connected(broker.url) as client:
        for number in range(20):
            await enqueue(client.connection, {**JOB, "name": f"job-{number}"})
    async with an_intake(broker, tmp_path) as stage:
        await stage.until(lambda: len(stage.states()) == 20)
        names = [name for (name,) in stage.rows("SELECT name FROM jobs ORDER BY id")]
        assert names == [f"job-{number}" for number in range(20)]
        assert {user for (user,) in stage.rows('SELECT "user" FROM jobs')} == {"alice"}


async def test_the_same_message_id_on_both_ways_in_is_one_job(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await enqueue(stage.connection, JOB, message_id="once")
        await stage.until(lambda: stage.states() == {1: "pending"})
        reply = await stage.connection.request(
            "rankd.v1.user.alice.job.submit", json.dumps(JOB).encode(), headers={"Nats-Msg-Id": "once"}
        )
        assert json.loads(reply.data) == {"id": 1}
        await stage.do("job.submit", {**JOB, "key": "mine"})
        await enqueue(stage.connection, {**JOB, "key": "mine"})
        await enqueue(stage.connection, JOB, message_id="last")
        await stage.until(lambda: len(stage.states()) == 3)
        assert stage.rows("SELECT key FROM jobs ORDER BY id") == [("once",), ("mine",), ("last",)]


async def test_a_message_handed_out_twice_makes_its_jobs_once(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        intake = Intake(cluster.configuration, cluster.catalog, cluster.database, cluster.bus, time.time)
        tries, twice = [], asyncio.Event()

        async def interrupted(*submission):
            """Stores, and the first time fails before the message can be acknowledged."""
            stored = await intake.take(*submission)
            tries.append(stored[1])
            if len(tries) == 1:
                raise Unavailable("crash", "between commit and acknowledgement")
            twice.set()
            return stored

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(intake.group.run()),
                group.create_task(
                    EnqueuedSubmissions(cluster.bus, "intake", intake.group, interrupted, time.time).run()
                ),
            ]
            await enqueue(cluster.bus.client, {"jobs": [JOB, {"command": []}, JOB]})
            await asyncio.wait_for(twice.wait(), PATIENCE_S)
            for task in tasks:
                task.cancel()
        assert tries == [[1, 2], [1, 2]]
        assert len(cluster.states()) == 2
        assert all(key.startswith("enqueued-") for (key,) in cluster.rows("SELECT key FROM jobs"))


async def test_an_acknowledged_message_survives_a_killed_broker_and_an_intake_that_is_away(broker, tmp_path):
    options = options_of(broker, tmp_path)
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client:
        async with running(run, options):
            await ready(bus, "intake")
        stage = Stage(client.connection)
        await stage.listen()
        stage.path = tmp_path / "rankd.db"
        await enqueue(stage.connection, JOB, message_id="before")
        broker.kill()
        broker.start()
        async with running(run, options):
            await ready(bus, "intake")
            await stage.do("job.list")  # who gets an answer is connected again, and hears the news
            await stage.until(lambda: len(stage.states()) == 1)


async def test_what_can_not_be_accepted_is_told_and_kept_and_holds_nobody_up(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await enqueue(stage.connection, {**JOB, "queue": "root.nowhere"}, message_id="lost")
        await enqueue(stage.connection, b"{ no json")
        await enqueue(stage.connection, {"jobs": [JOB, {**JOB, "urgency": 20}], "atomic": True})
        await enqueue(stage.connection, {**JOB, "name": "behind"}, "bob")
        await stage.until(lambda: stage.rows("SELECT 1 FROM jobs WHERE name = 'behind'"))
        letters = await heard(stage, "rankd.v1.deadletter.*", 3)
        assert {(entry["user"], entry["code"], entry["message_id"]) for entry in letters} == {
            ("alice", "unknown_queue", "lost"),
            ("alice", "bad_request", None),
            ("alice", "urgency_not_allowed", None),
        }
        [lost] = [entry for entry in letters if entry["message_id"]]
        assert json.loads(lost["submission"])["queue"] == "root.nowhere"
        told = [event["refused"][0] for event in await heard(stage, "rankd.v1.event.job.alice", 3)]
        assert told == [{**entry, "submission": None} for entry in letters]
        assert len(stage.states()) == 1  # of the atomic batch, none


async def test_a_dead_letter_is_retried_by_its_owner_under_the_same_key_or_dropped(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await enqueue(stage.connection, {"jobs": [{**JOB, "qos": "new"}, JOB]}, message_id="batch")
        await stage.until(lambda: len(stage.rows("SELECT 1 FROM dead_letters")) == 1)
        await enqueue(stage.connection, {**JOB, "queue": "nowhere"})
        await stage.until(lambda: len(stage.rows("SELECT 1 FROM dead_letters")) == 2)
        [first, second] = (await stage.do("deadletter.list")).body["letters"]
        assert (first["code"], second["code"]) == ("unknown_qos", "unknown_queue")
        assert (await stage.do("deadletter.list", user="bob")).body["letters"] == []
        [failed] = (await stage.do("deadletter.retry", {"ids": [first["id"]]}, user="bob")).body["failed"]
        assert failed["code"] == "unknown_dead_letter"
        [failed] = (await stage.do("deadletter.retry", {"ids": [first["id"]]})).body["failed"]
        assert failed["code"] == "unknown_qos"
        dropped = await stage.ask("rankd.v1.admin.root.deadletter.drop", {"ids": [second["id"], 99]})
        assert dropped.body["done"] == [{"id": second["id"], "jobs": []}]
        assert [no["code"] for no in dropped.body["failed"]] == ["unknown_dead_letter"]
    toml = tmp_path / "config" / "rankd.toml"
    toml.write_text(toml.read_text() + '\n[[qos]]\nname = "new"\n')
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client:
        options = options_of(broker, tmp_path)
        toml.write_text(toml.read_text() + '\n[[qos]]\nname = "new"\n')
        async with running(run, options):
            await ready(bus, "intake")
            stage.connection = client.connection
            retried = await stage.do("deadletter.retry", {"ids": [first["id"]]})
            assert retried.body == {"done": [{"id": first["id"], "jobs": [2]}], "failed": []}
            assert stage.rows("SELECT key FROM jobs ORDER BY id") == [("batch/1",), ("batch/0",)]
            again = await stage.do("deadletter.retry", {"ids": [first["id"]]})
            assert [no["code"] for no in again.body["failed"]] == ["already_settled"]
            assert (await stage.do("deadletter.list")).body["letters"] == []
            listed = (await stage.do("deadletter.list", {"all": True})).body["letters"]
            assert [entry["state"] for entry in listed] == ["retried", "dropped"]


async def test_a_full_queue_refuses_instead_of_forgetting(broker):
    async with Bus(broker.url, "test") as bus:
        await ensure_streams(bus)
        config = (await bus.jetstream.stream_info("RANKD_SUBMISSIONS")).config
        config.max_bytes = 1000
        await bus.jetstream.update_stream(config)
        await enqueue(bus.client, {**JOB, "comment": "x" * 500})
        with pytest.raises(nats.js.errors.APIError, match="maximum bytes exceeded"):
            await enqueue(bus.client, {**JOB, "comment": "x" * 500})

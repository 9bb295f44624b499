"""The intake with a real broker and a real database; the tests play users, nodes and agents over plain NATS."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import builder
import nats.errors
import pytest
from integration.stage import NOW, Client, connected, process, ready, rows, running, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.endpoint import MAX_REQUESTS_PER_ASKER
from rankd.services.intake.service import IntakeOptions, run
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.group_commit import MAX_GROUP, GroupCommit
from rankd.store.engine.lock import FileLock
from rankd.store.engine.url import open_database
from rankd.store.record.allocation import NewAllocation, commit_allocations
from rankd.store.record.node import register_node
from rankd.wire.codec import encode
from rankd.wire.message import NodeRegistration, Report, ReportMessage

JOB = {"command": ["true"]}
MANY = 10_000


class Stage(Client):
    """A client beside a running intake, with a look into its database."""

    def rows(self, query: str, *values: object) -> list[tuple]:
        return rows(self.path, query, *values)

    def states(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, state FROM jobs"))


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


def options_of(broker, tmp_path, **settings) -> IntakeOptions:
    return IntakeOptions(
        nats=broker.url, db=str(tmp_path / "rankd.db"), config=write_config(tmp_path / "config", **settings)
    )


@asynccontextmanager
async def an_intake(broker, tmp_path, **settings):
    options = options_of(broker, tmp_path, **settings)
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options) as task:
        await ready(bus, "intake")
        stage = Stage(client.connection)
        await stage.listen()
        stage.path, stage.task = tmp_path / "rankd.db", task
        yield stage


# --- submission ---------------------------------------------------------------------------------------------


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


# --- idempotence --------------------------------------------------------------------------------------------


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


# --- acting on jobs -----------------------------------------------------------------------------------------


async def test_cancel_hold_and_release_by_id_ids_and_filter(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        ids = [await stage.submit(name=name) for name in ("a", "b", "c", "c")]
        assert (await stage.do("job.hold", {"id": ids[0]})).body == {"done": [1], "failed": []}
        assert (await stage.do("job.hold", {"ids": ids[:2]})).body == {"done": [1, 2], "failed": []}
        assert (await stage.do("job.release", {"filter": {"ids": ids[:2]}})).body["done"] == [1, 2]
        assert (await stage.do("job.cancel", {"filter": {"names": ["c"]}})).body["done"] == [3, 4]
        assert stage.states() == {1: "pending", 2: "pending", 3: "cancelled", 4: "cancelled"}
        events = stage.rows("SELECT event FROM job_events WHERE job_id = 1 ORDER BY id")
        assert [event for (event,) in events] == ["submit", "hold", "hold", "release"]


async def test_one_job_that_fails_is_an_error_and_among_several_an_entry(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        await stage.do("job.cancel", {"id": job})
        for verb, body, status, code in (
            ("job.cancel", {"id": job}, 409, "already_ended"),
            ("job.hold", {"id": job}, 409, "not_pending"),
            ("job.release", {"id": job}, 409, "not_pending"),
            ("job.cancel", {"id": 77}, 404, "unknown_job"),
            ("job.cancel", {}, 400, "empty_selection"),
            ("job.cancel", {"id": job, "ids": "x"}, 400, "bad_field"),
            ("job.show", {"id": 77}, 404, "unknown_job"),
        ):
            reply = await stage.do(verb, body)
            assert (reply.status, reply.body["code"]) == (status, code), verb
        reply = await stage.do("job.cancel", {"ids": [job, 77]})
        assert [(entry["id"], entry["code"]) for entry in reply.body["failed"]] == [
            (job, "already_ended"),
            (77, "unknown_job"),
        ]


async def test_users_act_on_their_own_jobs_only_and_administrators_on_all(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        for verb in ("job.cancel", "job.hold", "job.release"):
            reply = await stage.do(verb, {"id": job}, "bob")
            assert (reply.status, reply.body["code"]) == (403, "not_owner")
            others = await stage.do(verb, {"filter": {"users": ["alice"]}}, "bob")
            assert (others.status, others.body["code"]) == (403, "admins_only")
        assert (await stage.do("job.update", {"id": job, "comment": "x"}, "bob")).status == 403
        assert (await stage.ask("rankd.v1.admin.root.job.hold", {"id": job})).body["done"] == [job]
        assert stage.rows("SELECT actor FROM job_events WHERE event = 'hold'") == [("root",)]
        mismatch = await stage.do("job.submit", {**JOB, "user": "alice"}, "bob")
        assert (mismatch.status, mismatch.body["code"]) == (403, "user_mismatch")


async def test_an_update_neither_releases_an_explicit_hold_nor_brings_a_released_one_back(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        held = await stage.submit(held=True)
        await stage.do("job.update", {"id": held, "urgency": 10})
        assert stage.rows("SELECT held, urgency, eligible_at FROM jobs WHERE id = ?", held) == [(1, 10, None)]
        released = await stage.submit(urgency=0)
        await stage.do("job.release", {"id": released})
        await stage.do("job.update", {"id": released, "comment": "x"})
        assert stage.rows("SELECT held, urgency FROM jobs WHERE id = ?", released) == [(0, 16)]


async def test_a_user_may_change_an_expedited_job_but_for_its_urgency(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        await stage.ask("rankd.v1.admin.root.job.update", {"id": job, "urgency": 31})
        assert (await stage.do("job.update", {"id": job, "comment": "x"})).status is None
        assert (await stage.do("job.update", {"id": job, "urgency": 31})).status == 403
        assert stage.rows("SELECT urgency, comment FROM jobs") == [(31, "x")]


# --- looking ------------------------------------------------------------------------------------------------


async def test_every_look_has_its_answer(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(name="one")
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2, "memory": "1Gi"}, "agent": "n1"})
        shown = (await stage.do("job.show", {"id": job}, "bob")).body
        assert (shown["id"], shown["user"], shown["state"]) == (job, "alice", "pending")
        assert shown["priority_breakdown"] is None
        assert [entry["id"] for entry in (await stage.do("job.list", {"names": ["one"]})).body["jobs"]] == [job]
        assert [entry["event"] for entry in (await stage.do("job.history", {"id": job})).body["events"]] == ["submit"]
        assert (await stage.do("priority.list")).body == {"jobs": [], "weights": {}}
        [node] = (await stage.do("node.list")).body["nodes"]
        assert (node["name"], node["state"], node["capacity"]) == ("n1", "up", {"vcore": 2, "memory": 2**30})
        queues = (await stage.do("queue.list")).body["queues"]
        assert [queue["path"] for queue in queues] == ["root", "root.default", "root.small"]
        shares = (await stage.do("share.list")).body["shares"]
        assert ("physics", "alice") in [(share["account"], share["user"]) for share in shares]


VERBS = [
    *(f"job.{verb}" for verb in ("submit", "cancel", "hold", "release", "update", "show", "list", "history")),
    *("priority.list", "node.list", "queue.list", "share.list"),
]


async def test_the_standard_tools_find_every_endpoint(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit()
        assert (await stage.ask("$SRV.PING.rankd")).body["name"] == "rankd"
        info = (await stage.ask("$SRV.INFO.rankd")).body
        subjects = {endpoint["subject"] for endpoint in info["endpoints"]}
        for verb in VERBS:
            assert {f"rankd.v1.user.*.{verb}", f"rankd.v1.admin.*.{verb}"} <= subjects
        assert {"rankd.v1.node.*.register", "rankd.v1.node.*.heartbeat"} <= subjects
        stats = (await stage.ask("$SRV.STATS.rankd")).body
        assert {e["num_requests"] for e in stats["endpoints"] if e["name"] == "user_job_submit"} == {1}


async def test_names_with_dots_go_all_the_way(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        events = await stage.connection.subscribe("rankd.v1.event.job.first%2Elast")
        await stage.connection.flush()
        job = await stage.submit("first%2Elast")
        shown = (await stage.do("job.show", {"id": job})).body
        assert (shown["user"], shown["account"]) == ("first.last", "physics")
        assert json.loads((await events.next_msg(PATIENCE_S)).data)["events"][0]["actor"] == "first.last"
        assert (await stage.do("job.cancel", {"filter": {}}, "first%2Elast")).body["done"] == [job]
        body = {"resources": {"vcore": 2}, "agent": "n1.example.org"}
        await stage.ask("rankd.v1.node.n1%2Eexample%2Eorg.register", body)
        assert stage.rows("SELECT name, state FROM nodes") == [("n1.example.org", "up")]
        assert (await stage.ask("rankd.v1.node.n1%2Eexample%2Eorg.heartbeat", {"nodes": []})).status is None
        assert (await stage.do("job.submit", JOB, "%FF")).status == 400


# --- commit before reply ------------------------------------------------------------------------------------


async def test_a_job_whose_reply_came_is_there_after_kill_9(broker, tmp_path):
    options = options_of(broker, tmp_path)
    path = tmp_path / "rankd.db"
    async with connected(broker.url) as client, Bus(broker.url, "probe") as bus:
        async with process("intake", nats=options.nats, db=options.db, config=options.config) as intake:
            await ready(bus, "intake")
            job = await client.submit(name="kept")
            intake.kill()
            await intake.wait()
        assert rows(path, "SELECT id, name FROM jobs") == [(job, "kept")]


async def test_one_who_floods_is_told_to_come_again_and_stops_nobody_else(broker, tmp_path):
    lock = FileLock(tmp_path / "rankd.db.lock")
    async with an_intake(broker, tmp_path) as stage:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            with lock.held():
                flood = [group.create_task(stage.do("job.submit", JOB, "alice")) for _ in range(MAX_REQUESTS_PER_ASKER)]
                taken = group.create_task(stage.do("job.submit", JOB, "bob"))
                await stage.connection.flush()
                subject, payload = "rankd.v1.user.alice.job.submit", json.dumps(JOB).encode()
                refused = await stage.connection.request(subject, payload, timeout=PATIENCE_S)
                assert refused.headers["Nats-Service-Error-Code"] == "429"
                assert refused.headers["Retry-After"] == "1"
                assert json.loads(refused.data)["code"] == "too_many_waiting"
        ids = [(await request).body["id"] for request in flood]
        assert sorted([*ids, (await taken).body["id"]]) == list(range(1, MAX_REQUESTS_PER_ASKER + 2))
        assert (await taken).body["id"] < MAX_GROUP + MAX_REQUESTS_PER_ASKER / 2  # not behind all of the flood
    lock.close()


async def test_requests_in_flight_are_answered_before_a_stop(broker, tmp_path):
    """A write lock held elsewhere keeps the requests in flight while the intake is told to stop."""
    options = options_of(broker, tmp_path)
    lock, stop = FileLock(tmp_path / "rankd.db.lock"), asyncio.Event()
    async with (
        asyncio.timeout(PATIENCE_S),
        connected(broker.url) as client,
        Bus(broker.url, "probe") as bus,
        asyncio.TaskGroup() as group,
    ):
        service = group.create_task(run(options, stop))
        await ready(bus, "intake")
        with lock.held():
            requests = [group.create_task(client.submit()) for _ in range(20)]
            taken = await client.ask("rankd.v1.user.alice.job.list")  # comes after them on the same connection
            assert taken.body["jobs"] == []
            stop.set()
        ids = [await request for request in requests]
        await service
    lock.close()
    assert sorted(ids) == list(range(1, 21))
    assert len(rows(tmp_path / "rankd.db", "SELECT id FROM jobs")) == 20


async def test_a_work_with_a_bug_fails_alone(tmp_path):
    """Group commit: those that share its transaction are done all the same."""

    async def nothing() -> None:
        pass

    def insert(connection, epoch):
        roles = "INSERT INTO roles (name, epoch, holder, since) VALUES (?, ?, '', 0)"
        connection.exec_driver_sql(roles, (f"r{epoch}", epoch))
        return epoch

    async with open_database(tmp_path / "rankd.db") as database:
        await database.take_role("intake", NOW)
        group = GroupCommit(database, "intake", nothing, nothing)
        works = [lambda c: insert(c, 1), lambda _: 1 // 0, lambda c: insert(c, 3), lambda c: insert(c, 1)]
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(_outcome(group.do(work))) for work in works]
            loop = tasks.create_task(group.run())
            outcomes = [await task for task in waiting]
            loop.cancel()
    assert [type(outcome).__name__ for outcome in outcomes] == ["int", "ZeroDivisionError", "int", "IntegrityError"]
    assert rows(tmp_path / "rankd.db", "SELECT name FROM roles WHERE name LIKE 'r_'") == [("r1",), ("r3",)]


async def _outcome(work):
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - the outcome is what the test looks at
        return error


async def test_heartbeats_wake_nobody(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        woken = await stage.connection.subscribe("rankd.v1.internal.committed")
        for _ in range(5):
            await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})
        events = await stage.connection.subscribe("rankd.v1.event.job.alice")
        await stage.submit()
        await events.next_msg(PATIENCE_S)
        assert woken.pending_msgs == 1


# --- nodes --------------------------------------------------------------------------------------------------


async def test_nodes_register_once_and_unknown_ones_are_told_to(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        unknown = await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1", "n2"], "key": "k"})
        assert (unknown.status, unknown.body["code"]) == (404, "unknown_node")
        assert "n1, n2" in unknown.body["message"]
        for _ in range(3):
            reply = await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1", "new": 1})
            assert reply.body == {"heartbeat_s": 5.0, "grace_s": 5.0, "max_processes": 4096, "outputs_s": 7_776_000.0}
        assert stage.rows("SELECT node, event FROM node_events") == [("n1", "joined")]
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 4}, "agent": "n1"})
        assert stage.rows("SELECT event FROM node_events WHERE id > 1") == [("changed",)]
        [(before,)] = stage.rows("SELECT heartbeat_at FROM nodes")
        assert (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})).status is None
        assert stage.rows("SELECT heartbeat_at > ? FROM nodes", before) == [(1,)]


async def test_a_node_speaks_for_no_other_one(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for name, key in (("n1", "mine"), ("n2", "mine"), ("n3", "other"), ("n4", "")):
            body = {"resources": {"vcore": 2}, "agent": name, "key": key}
            assert (await stage.ask(f"rankd.v1.node.{name}.register", body)).status is None
        write(tmp_path, "UPDATE nodes SET heartbeat_at = 1")
        for verb in ("heartbeat", "leave"):
            for names, key, code in (
                (["n3"], "", "foreign_node"),
                (["n1", "n3"], "", "foreign_node"),
                (["n3"], "mine", "unknown_node"),
                (["n4"], "mine", "unknown_node"),
            ):
                if verb == "heartbeat" or code == "foreign_node":
                    reply = await stage.ask(f"rankd.v1.node.n1.{verb}", {"nodes": names, "key": key})
                    assert (verb, names, reply.body["code"]) == (verb, names, code)
                else:
                    await stage.ask(f"rankd.v1.node.n1.{verb}", {"nodes": names, "key": key})
        assert stage.rows("SELECT name FROM nodes WHERE heartbeat_at > 1 OR state <> 'up'") == []
        assert (await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1", "n2"], "key": "mine"})).status is None
        assert stage.rows("SELECT name FROM nodes WHERE heartbeat_at > 1") == [("n1",), ("n2",)]
        assert (await stage.ask("rankd.v1.node.n2.leave", {"nodes": ["n2", "n1"], "key": "mine"})).status is None
        assert stage.rows("SELECT name, state FROM nodes ORDER BY name") == [
            ("n1", "down"), ("n2", "down"), ("n3", "up"), ("n4", "up")
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"resources": {"vcore": 9e15}}, "bad_quantity"),
        ({"resources": {"vcore": 1_000_001}}, "bad_quantity"),
        ({"resources": {"memory": 2**50 + 1}}, "bad_quantity"),
        ({"resources": {f"kind{number}": 1 for number in range(65)}}, "too_many"),
        ({"resources": {"x" * 254: 1}}, "bad_name"),
        ({"labels": {f"label{number}": "" for number in range(257)}}, "too_many"),
        ({"labels": {"k" * 318: ""}}, "bad_label"),
        ({"labels": {"k": "v" * 64}}, "bad_label"),
        ({"partition": "p" * 254}, "bad_name"),
        ({"agent": ""}, "bad_name"),
        ({"running": list(range(100_001))}, "too_many"),
    ],
)
async def test_what_a_node_says_of_itself_is_bounded_and_logged_once(broker, tmp_path, caplog, given, code):
    async with an_intake(broker, tmp_path) as stage:
        body = {"resources": {"vcore": 2}, "agent": "n1", **given}
        for _ in range(3):
            reply = await stage.ask("rankd.v1.node.n1.register", body)
            assert (reply.status, reply.body["code"]) == (400, code)
        assert stage.rows("SELECT name FROM nodes") == []
        assert len([record for record in caplog.records if "is not registered" in record.message]) == 1


async def test_a_node_ends_no_other_nodes_allocation(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for node in ("n1", "n2"):
            await stage.ask(f"rankd.v1.node.{node}.register", {"resources": {"vcore": 2}, "agent": node})
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n2")
        write(tmp_path, f"UPDATE allocation_nodes SET ended_at = 1 WHERE allocation_id = {allocation}")
        for node, found in (("n1", None), ("n2", [allocation])):
            body = {"resources": {"vcore": 2}, "agent": node, "running": [allocation]}
            assert (await stage.ask(f"rankd.v1.node.{node}.register", body)).body.get("end") == found


@pytest.mark.parametrize("verb", ["job.list", "job.acct", "priority.list"])
async def test_a_filter_names_what_exists(broker, tmp_path, verb):
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit()
        for given, code in (
            ({"users": ["alcie"]}, "unknown_user"),
            ({"queues": ["root.defualt"]}, "unknown_queue"),
            ({"accounts": ["root", "phsics"]}, "unknown_account"),
            ({"partitions": ["gpu"]}, "unknown_partition"),
            ({"qos": ["x"]}, "unknown_qos"),
            ({"states": ["sleeping"]}, "unknown_state"),
        ):
            reply = await stage.do(verb, given)
            assert (reply.status, reply.body["code"]) == (404, code)
        assert "did you mean 'root.default'?" in (await stage.do(verb, {"queues": ["root.defualt"]})).body["message"]
        assert (await stage.do(verb, {"users": ["alice"], "queues": ["ROOT.default"]})).status is None
        assert (await stage.do(verb, {"users": ["newcomer"]}, "newcomer")).status is None
        assert (await stage.do(verb, {"names": ["x"] * 1001})).body["code"] == "too_many"
        assert (await stage.do(verb, {"names": ["x" * 1025]})).body["code"] == "too_long"


ADMIN = "rankd.v1.admin.root"
ALICE = "rankd.v1.user.alice"
MANY_IDS = [1] * 100_001


@pytest.mark.parametrize(
    ("subject", "body", "code", "field"),
    [
        (f"{ALICE}.deadletter.drop", {"ids": [1] * 50_000}, "too_many", "ids"),
        (f"{ALICE}.deadletter.retry", {"ids": [1] * 50_000}, "too_many", "ids"),
        (f"{ALICE}.deadletter.list", {"ids": MANY_IDS}, "too_many", "ids"),
        (f"{ADMIN}.deadletter.list", {"users": ["alice"] * 1_001}, "too_many", "users"),
        (f"{ALICE}.job.cancel", {"ids": MANY_IDS}, "too_many", "ids"),
        (f"{ALICE}.job.hold", {"filter": {"ids": MANY_IDS}}, "too_many", "filter.ids"),
        (f"{ALICE}.job.release", {"ids": MANY_IDS}, "too_many", "ids"),
        (f"{ALICE}.job.update", {"filter": {"names": ["x"]}, "name": "x" * 257}, "too_long", "name"),
        (f"{ALICE}.job.list", {"ids": MANY_IDS}, "too_many", "ids"),
        (f"{ALICE}.job.acct", {"ids": MANY_IDS}, "too_many", "ids"),
        (f"{ALICE}.priority.list", {"ids": MANY_IDS}, "too_many", "ids"),
        (f"{ALICE}.node.list", {"after": ["x"] * 5}, "too_many", "after"),
        (f"{ALICE}.queue.list", {"after": ["x" * 1_025]}, "too_long", "after"),
        (f"{ALICE}.share.list", {"after": ["x"] * 5}, "too_many", "after"),
        (f"{ALICE}.report.make", {"kind": "whatif", "weights": {"x" * 65: 1}}, "too_long", "weights"),
        (f"{ALICE}.report.part", {"report": "x" * 65}, "too_long", "report"),
        (f"{ALICE}.class.show", {"name": "x" * 257}, "too_long", "name"),
        (f"{ADMIN}.class.delete", {"name": "x" * 257}, "too_long", "name"),
        (f"{ADMIN}.class.create", {"name": "x" * 257, "value": 1}, "too_long", "name"),
        (f"{ADMIN}.class.update", {"name": "x", "value": 1, "description": "x" * 4_097}, "too_long", "description"),
        (f"{ADMIN}.node.drain", {"nodes": ["n"] * 100_001}, "too_many", "nodes"),
        (f"{ADMIN}.node.resume", {"node": "n" * 254}, "too_long", "node"),
        ("rankd.v1.node.n1.register", {"resources": {}, "agent": "n1", "key": "x" * 257}, "too_long", "key"),
        ("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"] * 100_001}, "too_many", "nodes"),
        ("rankd.v1.node.n1.leave", {"nodes": ["n" * 254]}, "too_long", "nodes"),
        ("rankd.v1.node.n1.take", {"agent": "n1", "known": MANY_IDS}, "too_many", "known"),
        (
            "rankd.v1.node.n1.report",
            {"reports": [{"allocation": 1, "job": 1, "kind": "started", "at": 1}] * 1_001},
            "too_many",
            "reports",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_request_that_is_too_large_is_refused_before_anything_is_done(
    broker, tmp_path, subject, body, code, field
):
    async with an_intake(broker, tmp_path) as stage:
        reply = await stage.ask(subject, body)
        assert (reply.status, reply.body["code"], reply.body["field"]) == (400, code, field), reply


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


async def test_a_node_has_one_agent_at_a_time(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        body = {"resources": {"vcore": 2}, "agent": "first"}
        await stage.ask("rankd.v1.node.n1.register", body)
        taken = await stage.ask("rankd.v1.node.n1.register", {**body, "agent": "second"})
        assert (taken.status, taken.body["code"]) == (409, "node_taken")
        assert "'first'" in taken.body["message"]
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        assert (await stage.ask("rankd.v1.node.n1.register", {**body, "agent": "second"})).status is None
        write(tmp_path, "UPDATE nodes SET heartbeat_at = heartbeat_at - 61")
        assert (await stage.ask("rankd.v1.node.n1.register", body)).status is None
        assert stage.rows("SELECT agent FROM nodes") == [("first",)]


async def test_a_draining_node_that_registers_again_goes_on_draining_without_an_event(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        await stage.ask(DRAIN, {"node": "n1"})
        await stage.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 2}, "agent": "n1"})
        assert stage.rows("SELECT state, (SELECT count(*) FROM node_events) FROM nodes") == [("draining", 2)]


@pytest.mark.parametrize("payload", [b"", b"{", b'{"resources": {"vcore": "many"}, "agent": "n1"}', b'{"nodes": 3}'])
async def test_a_node_message_that_can_not_be_read_harms_nobody(broker, tmp_path, payload):
    async with an_intake(broker, tmp_path) as stage:
        for kind in ("register", "heartbeat"):
            assert (await stage.ask(f"rankd.v1.node.n1.{kind}", payload)).status == 400
        assert await stage.submit() == 1


def write(tmp_path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "rankd.db", timeout=PATIENCE_S)
    with connection:
        connection.execute(statement)
    connection.close()


# --- reports ------------------------------------------------------------------------------------------------


async def allocate(tmp_path, job: int, *nodes: str) -> int:
    """As the scheduler would; the allocation's id."""

    def commit(connection):
        for node in nodes:
            register_node(connection, node, NodeRegistration(resources={"vcore": 8}, agent=node), time.time())
        query = "SELECT revision FROM jobs WHERE id = ?"
        revision = connection.exec_driver_sql(query, (job,)).scalar_one()
        new = NewAllocation(
            job=job, revision=revision, nodes=nodes, resources={"vcore": 1000}, charge_rate=1.0, generation=1, rank=1
        )
        commit_allocations(connection, [new], 1, NOW)
        return connection.exec_driver_sql("SELECT max(id) FROM allocations").scalar_one()

    async with open_database(tmp_path / "rankd.db") as database:
        return await database.write(commit)


def report(allocation: int, job: int, kind: str, at: float = NOW + 1, **fields) -> Report:
    return Report(allocation=allocation, job=job, kind=kind, at=at, **fields)


async def send(stage, node: str, *reports: Report | bytes) -> None:
    """One message each, as they come."""
    for entry in reports:
        payload = entry if isinstance(entry, bytes) else encode(ReportMessage(reports=[entry]))
        await stage.connection.request(f"rankd.v1.node.{node}.report", payload, timeout=PATIENCE_S)


def story(stage, job: int) -> list[str]:
    return [event for (event,) in stage.rows("SELECT event FROM job_events WHERE job_id = ? ORDER BY id", job)]


async def until_state(stage, job: int, state: str) -> None:
    await stage.until(lambda: stage.states()[job] == state)


async def test_a_report_is_taken_once_however_often_it_comes(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        jobs = [await stage.submit(), await stage.submit()]
        first, second = [await allocate(tmp_path, job, "n1") for job in jobs]
        begun, ended = report(first, jobs[0], "started"), report(first, jobs[0], "ended", NOW + 5, exit_status=0)
        await send(stage, "n1", begun, begun, ended, begun, ended, report(second, jobs[1], "started"))
        await until_state(stage, jobs[1], "running")
        assert story(stage, jobs[0]) == ["submit", "allocate", "start", "complete"]
        assert stage.rows("SELECT started_at, ended_at FROM jobs WHERE id = 1") == [(NOW + 1, NOW + 5)]


async def test_an_end_that_overtakes_its_start_tells_both(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        ended = report(allocation, job, "ended", NOW + 5, exit_status=3, started_at=NOW + 1)
        await send(stage, "n1", ended, report(allocation, job, "started"))
        await until_state(stage, job, "failed")
        assert story(stage, job) == ["submit", "allocate", "start", "fail"]
        assert stage.rows("SELECT started_at, ended_at, exit_status FROM jobs") == [(NOW + 1, NOW + 5, 3)]


async def test_a_report_for_an_old_allocation_changes_nothing(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        old = await allocate(tmp_path, job, "n1")
        await send(stage, "n1", report(old, job, "ended", cause="agent_stopped"))
        await stage.until(lambda: story(stage, job)[-1] == "requeue")
        new = await allocate(tmp_path, job, "n2")
        late = [report(old, job, "started"), report(old, job, "ended", exit_status=0), report(99, job, "ended")]
        await send(stage, "n1", *late, report(new, job, "started"))
        await send(stage, "n2", report(new, job, "started"))
        await until_state(stage, job, "running")
        assert story(stage, job) == ["submit", "allocate", "requeue", "allocate", "start"]
        assert stage.rows("SELECT actor FROM job_events WHERE event = 'start'") == [("node:n2",)]


UNREADABLE_REPORTS = [
    b"",
    b"garbage",
    b'{"reports": 3}',
    b'{"reports": [{"allocation": 1, "job": 1, "kind": "exploded", "at": 0}]}',
    b'{"reports": [{"allocation": 36893488147419103232, "job": 1, "kind": "started", "at": 0}]}',
    b'{"reports": [{"allocation": 99, "job": 36893488147419103232, "kind": "ended", "at": 0}]}',
    b'{"reports": [' + b"[" * 100_000,
]


async def test_a_report_that_can_not_be_taken_holds_up_nobody(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit()
        allocation = await allocate(tmp_path, job, "n1")
        good = report(allocation, job, "ended", exit_status=0)
        await send(stage, "%FF", good)
        await send(stage, "n1", *UNREADABLE_REPORTS, good)
        await until_state(stage, job, "completed")


async def test_a_gang_ends_when_its_last_node_says_so_and_fails_together(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        job = await stage.submit(nodes=2)
        allocation = await allocate(tmp_path, job, "n1", "n2")
        await send(stage, "n1", report(allocation, job, "ended", exit_status=5))
        await stage.until(lambda: stage.rows("SELECT cancel FROM allocations") == [("gang",)])
        await send(stage, "n2", report(allocation, job, "ended", cause="cancel", signal=15))
        await until_state(stage, job, "failed")
        assert stage.rows("SELECT exit_status FROM jobs") == [(5,)]


# --- drained nodes ------------------------------------------------------------------------------------------

DRAIN, RESUME = "rankd.v1.admin.root.node.drain", "rankd.v1.admin.root.node.resume"


async def joined(stage, *nodes: str) -> None:
    for node in nodes:
        await stage.ask(f"rankd.v1.node.{node}.register", {"resources": {"vcore": 2}, "agent": node})


async def test_a_drained_node_stays_so_through_silence_leaving_and_coming_back(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="0.2") as stage:
        await joined(stage, "n1")
        reply = await stage.ask(DRAIN, {"node": "n1", "reason": "new disks"})
        assert reply.body == {"done": ["n1"], "failed": []}
        state = "SELECT state FROM nodes"
        assert stage.rows(state) == [("draining",)]
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        assert stage.rows(state) == [("down",)]
        await joined(stage, "n1")
        assert stage.rows(state) == [("draining",)]
        await stage.until(lambda: stage.rows(state) == [("lost",)])
        await joined(stage, "n1")
        shown = stage.rows("SELECT state, drained_by, drain_reason FROM node")
        assert shown == [("draining", "root", "new disks")]
        assert (await stage.ask(RESUME, {"nodes": ["n1"], "reason": "done"})).body["done"] == ["n1"]
        assert stage.rows("SELECT state, drained_by, drain_reason FROM node") == [("up", None, None)]
        told = stage.rows("SELECT event, actor, reason FROM node_event WHERE event IN ('drain', 'resume')")
        assert told == [("drain", "root", "new disks"), ("resume", "root", "done")]


async def test_a_node_that_is_resumed_while_it_is_away_comes_back_in_use(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1")
        await stage.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        await stage.ask(DRAIN, {"node": "n1"})
        assert stage.rows("SELECT state FROM nodes") == [("down",)]
        await stage.ask("rankd.v1.admin.root.node.undrain", {"node": "n1"})
        await joined(stage, "n1")
        assert stage.rows("SELECT state FROM nodes") == [("up",)]


@pytest.mark.parametrize(
    ("subject", "body", "status", "code"),
    [
        (DRAIN, {"node": "n9"}, 404, "unknown_node"),
        (RESUME, {"node": "n1"}, 409, "not_draining"),
        (DRAIN, {}, 400, "empty_selection"),
        (DRAIN, {"node": "n1", "reason": "x" * 1001}, 400, "too_long"),
        (DRAIN, {"node": "n1", "why": "x"}, 400, "unknown_field"),
        ("rankd.v1.user.alice.node.drain", {"node": "n1"}, 403, "admins_only"),
    ],
)
async def test_a_drain_that_can_not_be_says_why(broker, tmp_path, subject, body, status, code):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1")
        reply = await stage.ask(subject, body)
        assert (reply.status, reply.body["code"]) == (status, code)
        assert stage.rows("SELECT state FROM nodes") == [("up",)]


async def test_some_nodes_can_be_drained_and_others_not(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1", "n2")
        reply = await stage.ask(DRAIN, {"nodes": ["n1", "n9", "n2", "n1"]})
        assert reply.body["done"] == ["n1", "n2"]
        assert [(failed["node"], failed["code"]) for failed in reply.body["failed"]] == [("n9", "unknown_node")]


async def test_events_of_nodes_are_published_once(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        events = await stage.connection.subscribe("rankd.v1.event.node.n1")
        await joined(stage, "n1")
        await stage.ask(DRAIN, {"node": "n1", "reason": "new disks"})
        heard = []
        while len(heard) < 2:
            heard += json.loads((await events.next_msg(PATIENCE_S)).data)["events"]
        assert [(e["id"], e["node"], e["event"], e["actor"], e["reason"]) for e in heard] == [
            (1, "n1", "joined", "n1", None),
            (2, "n1", "drain", "root", "new disks"),
        ]


async def test_who_registers_hears_what_it_runs_that_has_ended_in_the_records(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        jobs = [await stage.submit() for _ in range(2)]
        running, ended = [await allocate(tmp_path, job, "n1") for job in jobs]
        await send(stage, "n1", report(ended, jobs[1], "ended", exit_status=0))
        body = {"resources": {"vcore": 2}, "agent": "n1", "running": [running, ended, 99]}
        reply = await stage.ask("rankd.v1.node.n1.register", body)
        assert reply.body["end"] == [ended]


# --- silent nodes -------------------------------------------------------------------------------------------


async def test_what_a_lost_node_has_not_taken_is_not_given_to_it_when_it_is_back(broker, tmp_path):
    async with an_intake(broker, tmp_path, lost_after_s="0.2") as stage:
        job = await stage.submit()
        await allocate(tmp_path, job, "n1")
        await stage.until(lambda: story(stage, job)[-1] == "requeue")
        assert stage.rows("SELECT name, state FROM nodes") == [("n1", "lost")]
        beat = await stage.ask("rankd.v1.node.n1.heartbeat", {"nodes": ["n1"]})
        assert beat.body["code"] == "unknown_node"
        assert (await stage.ask("rankd.v1.node.n1.take", {"agent": "n1"})).body["code"] == "unknown_node"
        await joined(stage, "n1")
        assert (await stage.ask("rankd.v1.node.n1.take", {"agent": "n1", "known": []})).body == {}

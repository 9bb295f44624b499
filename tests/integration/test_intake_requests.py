"""Users' requests to a running intake: changing jobs, looking, limits, and answers that outlive a kill."""

from __future__ import annotations

import asyncio
import gc
import json

import builder
import pytest
from integration.intake_stage import (
    JOB,
    an_intake,
    options_of,
)
from integration.stage import NOW, connected, process, ready, rows
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.request_turns import MAX_REQUESTS_PER_ASKER
from rankd.services.intake.service import run
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.lock import FileLock
from rankd.store.engine.sqlite import MAX_GROUP
from rankd.store.engine.url import open_database


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


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
    *(f"job.{verb}" for verb in ("submit", "cancel", "hold", "release", "update", "show", "list", "history", "events")),
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

    async def nothing(*_) -> None:
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


async def test_a_filter_of_jobs_to_change_names_what_exists(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit()
        for verb, more in (
            ("job.cancel", {}),
            ("job.hold", {"dry_run": True}),
            ("job.release", {}),
            ("job.signal", {"signal": "USR1"}),
            ("job.update", {"urgency": 3}),
        ):
            reply = await stage.do(verb, {"filter": {"queues": ["root.defualt"]}, **more})
            assert (reply.status, reply.body["code"]) == (404, "unknown_queue")
            assert "did you mean 'root.default'?" in reply.body["message"]
        for given, code in (({"accounts": ["x"]}, "unknown_account"), ({"partitions": ["x"]}, "unknown_partition")):
            assert (await stage.do("job.cancel", {"filter": given})).body["code"] == code
        assert (await stage.do("job.cancel", {"filter": {"queues": ["Default"]}})).body["done"] == [1]


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


async def test_reports_in_quick_succession_are_refused_since_each_starts_a_process(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        answers = [await stage.do("report.make", {"kind": "gap", "job": 1}) for _ in range(12)]
        other = await stage.do("report.make", {"kind": "gap", "job": 1}, "bob")
    codes = [answer.body.get("code") for answer in answers]
    assert codes[:5] == [None] * 5
    assert "too_many_reports" in codes
    assert other.body.get("code") != "too_many_reports"
    left = [one for one in gc.get_objects() if isinstance(one, asyncio.SubprocessTransport) and not one.is_closing()]
    assert not left  # the intake has waited for the processes that it ended

"""Events of jobs: asked as ``job.events``, and followed while the broker and the intake come and go."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import builder
import pytest
from integration.intake_stage import allocate, an_intake
from integration.stage import connected, ready, rows, true_in_time
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.cli.look import event_follower
from rankd.cli.look.event_follower import EventFollower, Wanted
from rankd.store.look import event_list
from rankd.wire.dead_letter import DeadLetter
from rankd.wire.message import JobEvents

ALICE = "rankd.v1.event.job.alice"
EVENTS = "rankd.v1.user.alice.job.events"
ADMIN = "rankd.v1.admin.root.job.events"


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


def jobs_in(reply) -> list[tuple[int, str]]:
    assert reply.status is None, reply
    return [(event["job"], event["user"]) for event in reply.body["events"]]


async def test_a_user_gets_the_own_events_only_and_an_administrator_all(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for user in ("alice", "bob", "alice"):
            await stage.submit(user)
        own, every = [(1, "alice"), (3, "alice")], [(1, "alice"), (2, "bob"), (3, "alice")]
        assert jobs_in(await stage.do("job.events", {"after": 0})) == own
        assert jobs_in(await stage.do("job.events", {"after": 0, "users": ["alice"]})) == own
        assert jobs_in(await stage.do("job.events", {"after": 0, "jobs": [1, 2]})) == own[:1]
        assert jobs_in(await stage.do("job.events", {"since": 0, "limit": 1})) == own[:1]
        for users in (["bob"], ["alice", "bob"]):
            refused = await stage.do("job.events", {"after": 0, "users": users})
            assert (refused.status, refused.body["code"], refused.body["field"]) == (403, "admins_only", "users")
        assert jobs_in(await stage.do("job.events", {"after": 0, "users": []})) == own
        assert jobs_in(await stage.ask(ADMIN, {"after": 0})) == every
        assert jobs_in(await stage.ask(ADMIN, {"after": 1, "users": ["bob", "root"]})) == every[1:2]


async def test_events_come_page_by_page_and_the_last_id_says_where_to_go_on(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(event_list, "MOST_LOOKED_AT", 2)
    async with an_intake(broker, tmp_path) as stage:
        assert (await stage.do("job.events")).body == {"events": [], "last": 0, "more": False}
        for user in ("alice", "bob", "bob", "bob", "alice"):
            await stage.submit(user)
        assert (await stage.do("job.events")).body == {"events": [], "last": 5, "more": False}
        pages, last, more = [], 0, True
        while more:
            body = (await stage.do("job.events", {"after": last})).body
            pages.append([event["job"] for event in body["events"]])
            last, more = body["last"], body["more"]
        assert (pages, last) == ([[1], [], [5]], 5)
        later = (await stage.do("job.events", {"since": time.time() + 3_600})).body
        assert later == {"events": [], "last": 5, "more": False}


@pytest.mark.parametrize("body", [{"jobs": [1] * 100_001}, {"limit": 0}, {"user": "bob"}, {"since": "now"}])
async def test_what_is_no_request_for_events_is_refused(broker, tmp_path, body):
    async with an_intake(broker, tmp_path) as stage:
        assert (await stage.do("job.events", body)).status == 400


class Watch:
    """``rankd watch --json``; ``seen`` are its lines."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self.child = child
        self.seen: list[dict] = []

    async def read(self) -> None:
        while line := await self.child.stdout.readline():
            self.seen.append(json.loads(line))


@asynccontextmanager
async def watching(url: str, *words: str):
    command = [sys.executable, "-m", "rankd", "watch", "--json", "--nats", url, "--as", "alice", *words]
    child = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
    watch = Watch(child)
    async with asyncio.TaskGroup() as group:
        group.create_task(watch.read())
        try:
            yield watch
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def test_watch_prints_every_event_once_over_restarts_of_broker_and_intake(broker, tmp_path):
    def told() -> bool:
        wanted = rows(tmp_path / "rankd.db", "SELECT id FROM job_event WHERE job_id IN (SELECT id FROM jobs"
                      " WHERE \"user\" = 'alice') ORDER BY id")  # fmt: skip
        return [event["id"] for event in watch.seen] == [number for (number,) in wanted]

    async with AsyncExitStack() as stack:
        async with an_intake(broker, tmp_path) as stage:
            await stage.submit()
            watch = await stack.enter_async_context(watching(broker.url, "--since", "now-1hour"))
            await true_in_time(told)
            for user in ("bob", "alice", "alice"):
                await stage.submit(user)
            await true_in_time(told)
            broker.kill()
            broker.start()
            async with Bus(broker.url, "probe") as bus, connected(broker.url) as user:
                await ready(bus, "intake")
                await user.submit()
            await true_in_time(told)
        broker.kill()
        await allocate(tmp_path, 1, "n1")  # nobody is there to publish it
        broker.start()
        async with an_intake(broker, tmp_path) as stage:
            await stage.do("job.cancel", {"ids": [3]})
            await true_in_time(told)
            await stage.submit()
            await true_in_time(told)
        assert len(watch.seen) == 7
        assert watch.child.returncode is None


async def test_watch_goes_on_behind_a_message_that_cannot_be_read_and_prints_what_was_refused_once(broker, tmp_path):
    letter = DeadLetter(id=7, user="alice", at=1.0, message_id="m", code="bad_field", message="no", field=None)
    async with an_intake(broker, tmp_path) as stage, watching(broker.url, "--since", "now-1hour") as watch:
        await stage.submit()
        await true_in_time(lambda: len(watch.seen) == 1)
        async with Bus(broker.url, "relay") as bus:
            await bus.client.publish(ALICE, b"\xff{")
            for _ in range(2):  # as a relay whose first message was not acknowledged
                await bus.publish(ALICE, JobEvents(events=[], refused=[letter]))
        await true_in_time(lambda: len(watch.seen) == 2)
        await stage.submit()
        await true_in_time(lambda: len(watch.seen) == 3)
        assert [line["id"] for line in watch.seen] == [1, 7, 2]
        watch.child.terminate()
        error = await watch.child.stderr.read()
        assert error.startswith(b"rankd: skipped a message of 2 bytes on rankd.v1.event.job.alice: it can't be read: ")
        assert len(error.splitlines()) == 1


async def test_watch_of_jobs_that_do_not_exist_says_so_and_ends_unless_others_are_named(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await stage.submit()
        async with watching(broker.url, "2", "1_3") as watch, asyncio.timeout(PATIENCE_S):
            assert await watch.child.stderr.read() == b"rankd: there is no job 1_3, 2\n"
            assert await watch.child.wait() == 1
        async with watching(broker.url, "1-2,9", "--since", "now-1hour") as watch:
            await true_in_time(lambda: watch.seen)
            assert [line["job"] for line in watch.seen] == [1]
            watch.child.terminate()
            assert await watch.child.stderr.read() == b"rankd: there is no job 9\n"


class Records:
    """Answers ``job.events`` as an intake would, from a list; ``asked`` are the requests."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.asked: list[dict] = []

    async def answer(self, message) -> None:
        request = json.loads(message.data)
        self.asked.append(request)
        after = request.get("after")
        events = [self.event(number) for number in self.ids if after is not None and number > after]
        last = max(self.ids, default=0)
        await message.respond(json.dumps({"events": events, "last": last, "more": False}).encode())

    @staticmethod
    def event(number: int) -> dict:
        return {"id": number, "job": number % 10, "event": "submit", "state": "pending", "at": 1.0,
                "actor": "alice", "cause": None, "user": "alice"}  # fmt: skip


@asynccontextmanager
async def following(bus: Bus, **fields):
    """What a follower of alice's events has heard, while the block runs."""
    heard: list[int] = []
    named = {"users": ["alice"], "jobs": frozenset(), "since": None, **fields}
    follower = EventFollower(bus, Wanted(EVENTS, [ALICE], **named), lambda *_: None)

    async def follow() -> None:
        async for news in follower.run():
            heard.extend(one.id for one in news)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        yield heard
        task.cancel()


async def test_an_event_whose_message_was_lost_is_asked_for(broker, monkeypatch):
    monkeypatch.setattr(event_follower, "ASK_EVERY_S", 0.05)
    records = Records()
    async with Bus(broker.url, "records") as there, Bus(broker.url, "follower") as bus:
        await there.listen(EVENTS, records.answer)
        await there.client.flush()
        async with following(bus) as heard:
            await true_in_time(lambda: records.asked)
            records.ids.append(4)
            await true_in_time(lambda: heard == [4])


async def test_a_request_whose_answer_was_lost_with_the_connection_is_repeated_at_once(broker, monkeypatch):
    for name in ("ASK_EVERY_S", "ASK_TIMEOUT_S"):
        monkeypatch.setattr(event_follower, name, 10 * PATIENCE_S)
    records, asked = Records(), []

    async def unanswered(message) -> None:
        asked.append(message.data)

    async with Bus(broker.url, "records") as there, Bus(broker.url, "follower") as bus:
        answering = await there.client.subscribe(EVENTS, cb=records.answer)
        await there.client.flush()
        async with following(bus) as heard:
            await true_in_time(lambda: records.asked)
            await answering.unsubscribe()
            silent = await there.client.subscribe(EVENTS, cb=unanswered)
            await there.client.publish(ALICE, json.dumps({"events": [records.event(4)]}).encode())
            await true_in_time(lambda: asked)
            await silent.unsubscribe()
            await there.client.subscribe(EVENTS, cb=records.answer)
            records.ids.append(4)
            broker.kill()
            broker.start()
            await true_in_time(lambda: heard == [4])


async def test_a_message_with_known_or_unwanted_events_asks_for_nothing(broker, monkeypatch):
    monkeypatch.setattr(event_follower, "ASK_EVERY_S", PATIENCE_S)
    records = Records()
    records.ids.append(4)
    async with Bus(broker.url, "records") as there, Bus(broker.url, "follower") as bus:
        await there.listen(EVENTS, records.answer)
        await there.client.flush()
        async with following(bus, jobs=frozenset({7})) as heard:
            await true_in_time(lambda: records.asked)
            for number in (4, 5, 17):  # the first is known, the second is of job 5, the third of job 7
                records.ids.append(number)
                message = {"events": [records.event(number)]}
                await there.client.publish(ALICE, json.dumps(message).encode())
            await true_in_time(lambda: heard == [17])
        assert [request.get("after") for request in records.asked] == [None, 4]
        assert [request["jobs"] for request in records.asked] == [[7], [7]]


async def test_a_long_list_of_jobs_is_not_sent_with_each_request(broker):
    records = Records()
    async with Bus(broker.url, "records") as there, Bus(broker.url, "follower") as bus:
        await there.listen(EVENTS, records.answer)
        await there.client.flush()
        async with following(bus, jobs=frozenset(range(5, 5_000))) as heard:
            await true_in_time(lambda: records.asked)
            records.ids += [4, 17]  # of the jobs 4 and 7
            await there.client.publish(ALICE, json.dumps({"events": [records.event(17)]}).encode())
            await true_in_time(lambda: heard == [17])
        assert {request.get("jobs") for request in records.asked} == {None}


async def test_older_records_are_followed_from_their_own_newest_event_on(broker, monkeypatch):
    """As after a backup was brought back: the ids begin again."""
    monkeypatch.setattr(event_follower, "ASK_EVERY_S", 0.05)
    records = Records()
    records.ids.append(100)
    async with Bus(broker.url, "records") as there, Bus(broker.url, "follower") as bus:
        await there.listen(EVENTS, records.answer)
        await there.client.flush()
        async with following(bus) as heard:
            await true_in_time(lambda: records.asked)
            records.ids = [50]
            await true_in_time(lambda: records.asked[-1].get("after") == 50)
            records.ids.append(51)
            await true_in_time(lambda: heard == [51])

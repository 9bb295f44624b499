"""Whatever a stream or a subject holds, rankd counts it, keeps its first bytes and goes on, also after a restart."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from urllib.parse import urlsplit

import builder
import pytest
from integration.intake_stage import an_intake
from integration.stage import ASK_EVERY_S, PATIENCE_S, a_cluster, connected, ready, true_in_time

from rankd.bus.connection import Bus
from rankd.cli.look.event_follower import EventFollower, Wanted
from rankd.core.change import job_action
from rankd.core.errors import Unavailable
from rankd.services.intake import stream_end
from rankd.services.intake.relay import Relay
from rankd.services.runtime.life import Wake, announce
from rankd.wire.message import JobEvents

PAYLOADS = {
    "empty": b"",
    "no UTF-8": b"\xff\xfe\x00",
    "a string that is no UTF-8": b'{"events":["\xff"],"reports":["\xff"],"service":"\xff"}',
    "nested 100,000 levels deep": b'{"events":' + b"[" * 100_000,
    "reports nested 100,000 levels deep": b'{"reports":[{"job":' + b"[" * 100_000,
    "wrong types": b'{"events":7,"reports":{},"service":[],"starts":"x","nodes":1}',
    "huge numbers": b'{"events":[{"id":1e999}],"reports":[{"at":%b}]}' % (b"9" * 5000),
    "half a surrogate pair": b'{"events":"\\ud800"}',
    "no events at all": b'{"events":[]}',
}
HEADERS = {
    "nothing": b"",
    "no UTF-8": b"\xff: \xff\r\n",
    "a message id that is no UTF-8": b"Nats-Msg-Id: \xff\xfe\r\n",
    "an end of a request": b"Status: 408\r\nDescription: Request Timeout\r\n",
}
STATUS_LINES = {
    "a status": b"NATS/1.0 503\r\n\r\n",
    "a status that is no UTF-8": b"NATS/1.0 \xff\xff\xff \xff\r\n\r\n",
    "a heartbeat": b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
}
SUBJECTS = (
    "rankd.v1.enqueue.alice",
    "rankd.v1.enqueue.%FF%00",
    "rankd.v1.node.n1.report",
    "rankd.v1.node.%FF.report",
    "rankd.v1.event.job.alice",
    "rankd.v1.event.job.carol",
    "rankd.v1.event.job.%FF",
    "rankd.v1.event.node.n1",
    "rankd.v1.event.queue.root%2Edefault",
    "rankd.v1.event.configuration",
    "rankd.v1.deadletter.alice",
    "rankd.v1.internal.committed",
    "rankd.v1.internal.health.intake",
    "rankd.v1.internal.diag.scheduler",
    "rankd.v1.node.n1.heartbeat",
    "rankd.v1.user.alice.job.list",
    "rankd.v1.user.%FF.job.list",
    "rankd.v1.user.alice.job.submit",
)


def garbage() -> list[tuple[bytes | None, bytes]]:
    """(headers, payload)."""
    headers = [b"NATS/1.0\r\n" + lines + b"\r\n" for lines in HEADERS.values()] + list(STATUS_LINES.values())
    return [(None, payload) for payload in PAYLOADS.values()] + [(lines, b"") for lines in headers]


def publish_raw(url: str, messages: list[tuple[str, bytes | None, bytes]]) -> None:
    """Write the protocol by hand: a client library would refuse some of these. Returns once the broker has them."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S) as connection:
        reader = connection.makefile("rb")
        reader.readline()
        connection.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
        for subject, headers, payload in messages:
            if headers is None:
                connection.sendall(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
            else:
                sizes = (subject.encode(), len(headers), len(headers) + len(payload))
                connection.sendall(b"HPUB %b %d %d\r\n%b%b\r\n" % (*sizes, headers, payload))
        connection.sendall(b"PING\r\n")
        answer = b""
        while not answer.startswith(b"PONG"):
            answer = reader.readline()
            assert not answer.startswith(b"-ERR"), answer
        reader.close()


async def throw(url: str, *subjects: str) -> None:
    """Returns once the stream of events has what is meant for it: it takes in what comes in order."""
    publish_raw(url, [(subject, *what) for subject in subjects for what in garbage()])
    async with Bus(url, "thrower") as bus:
        await bus.jetstream.publish("rankd.v1.event.factor.x", b"{}")


async def empty(bus: Bus, stream: str) -> None:
    """Returns once a work queue holds nothing any more."""
    async with asyncio.timeout(PATIENCE_S):
        while (await bus.jetstream.stream_info(stream)).state.messages:
            await asyncio.sleep(ASK_EVERY_S)


async def heard_of(url: str, user: str, job: int) -> None:
    """Returns once a message in the stream has an event of the user's job."""
    async with Bus(url, "listener") as bus, asyncio.timeout(PATIENCE_S):
        while job not in [event["job"] for event in await events_in_stream(bus, f".event.job.{user}")]:
            await asyncio.sleep(ASK_EVERY_S)


async def test_the_intake_works_on_and_after_a_restart_whatever_its_streams_and_subjects_hold(broker, tmp_path):
    builder.new_database(tmp_path)
    async with an_intake(broker, tmp_path) as stage:
        first = await stage.submit("carol")
        await heard_of(broker.url, "carol", first)
        await throw(broker.url, *SUBJECTS)
    async with an_intake(broker, tmp_path) as stage:
        await throw(broker.url, *SUBJECTS)  # from here on, the stage's own client is deaf, as plain nats-py gets by it
        async with connected(broker.url) as user:
            second = await user.submit("carol")
        await heard_of(broker.url, "carol", second)
        assert sorted(stage.states()) == [first, second]
        async with Bus(broker.url, "probe") as bus:
            await empty(bus, "RANKD_SUBMISSIONS")
            await ready(bus, "intake")
        async with connected(broker.url) as user:
            shown = await user.do("diag.show")
        assert shown.body["unreadable"]["RANKD_EVENTS"] > 0
        kept = stage.rows("SELECT stream, subject, sequence, bytes, first_bytes FROM unreadable_message")
        assert {stream for stream, *_ in kept} == {"RANKD_EVENTS"}
        assert len({(stream, sequence) for stream, _, sequence, *_ in kept}) == len(kept)


async def test_the_relay_looks_behind_garbage_for_how_far_it_came(broker, tmp_path):
    """Else the events that were published before a crash would be in the stream twice."""
    builder.new_database(tmp_path)
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        await cluster.submit(builder.accepted(), builder.accepted("bob"), builder.accepted())
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        await throw(broker.url, "rankd.v1.event.job.alice")
        await cluster.database.write(lambda c: c.exec_driver_sql("DELETE FROM relay_marks"))
        await cluster.act(job_action.cancel, 1)
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        assert await ids_in_stream(cluster) == [1, 2, 3, 4]


async def test_behind_more_garbage_than_it_looks_through_the_relay_publishes_again_under_the_same_ids(
    broker, tmp_path, monkeypatch
):
    builder.new_database(tmp_path)
    monkeypatch.setattr(stream_end, "MOST_LOOKED_BACK", 3)
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        await cluster.submit(builder.accepted(), builder.accepted())
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        await throw(broker.url, "rankd.v1.event.job.alice")
        await cluster.database.write(lambda c: c.exec_driver_sql("DELETE FROM relay_marks"))
        await cluster.act(job_action.cancel, 1)
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        assert sorted(set(await ids_in_stream(cluster))) == [1, 2, 3]


async def relay_all(relay: Relay) -> None:
    while await relay.run_once():
        pass


async def ids_in_stream(cluster) -> list[int]:
    return sorted(event["id"] for event in await events_in_stream(cluster.bus, ".event.job."))


async def events_in_stream(bus: Bus, part: str) -> list[dict]:
    """The events in all messages that can be read, on subjects with this part."""
    found = []
    for number in range(1, (await bus.jetstream.stream_info("RANKD_EVENTS")).state.last_seq + 1):
        message = await bus.jetstream.get_msg("RANKD_EVENTS", number)
        if part not in message.subject:
            continue
        try:
            events = json.loads(message.data or b"")["events"]
            found += [event for event in events if event["id"]]
        except (ValueError, RecursionError, TypeError, KeyError):
            continue
    return found


async def test_a_follower_skips_what_it_cannot_read_reports_it_and_misses_no_event(broker, tmp_path):
    builder.new_database(tmp_path)
    skipped, heard = list[str](), list[int]()

    async def follow(bus: Bus) -> None:
        subject = "rankd.v1.event.job.alice"
        wanted = Wanted("rankd.v1.user.alice.job.events", [subject], ["alice"], frozenset(), since=0.0)
        async for news in EventFollower(bus, wanted, lambda message, _: skipped.append(message.subject)).run():
            heard.extend(event.job for event in news)

    async with (
        an_intake(broker, tmp_path) as stage,
        Bus(broker.url, "follower") as bus,
        asyncio.TaskGroup() as group,
    ):
        first = await stage.submit()
        following = group.create_task(follow(bus))
        await true_in_time(lambda: heard == [first])
        publish_raw(broker.url, [("rankd.v1.event.job.alice", *what) for what in garbage()])
        readable = 1  # "no events at all" is an answer that can be read
        await true_in_time(lambda: len(skipped) == len(garbage()) - readable)
        second = await stage.submit()
        await true_in_time(lambda: heard == [first, second])
        assert set(skipped) == {"rankd.v1.event.job.alice"}
        following.cancel()


async def test_a_wake_up_that_cannot_be_read_is_one_all_the_same(broker):
    async with Bus(broker.url, "test") as bus:
        wake = Wake()
        await wake.listen(bus, "rankd.v1.internal.committed", besides="test")
        await bus.client.flush()
        for headers, payload in garbage():
            publish_raw(broker.url, [("rankd.v1.internal.committed", headers, payload)])
            await wake.wait(PATIENCE_S)
        assert bus.unreadable["wake-up"] == len(garbage())
        await announce(bus, "test")
        await bus.client.flush()
        assert not wake.take()


@pytest.mark.parametrize("headers", [None, b"NATS/1.0\r\nNats-Service-Error-Code: x\r\n\r\n"])
async def test_an_answer_that_cannot_be_read_is_an_error_like_none(broker, headers):
    """Whoever answers for a service that is away, the question does not end in a traceback."""
    async with Bus(broker.url, "test") as bus, connected(broker.url) as client:
        for payload in list(PAYLOADS.values())[:-1]:

            async def answer(message, payload=payload):
                publish_raw(broker.url, [(message.reply, headers, payload)])

            subscription = await client.connection.subscribe("rankd.v1.internal.health.scheduler", cb=answer)
            await client.connection.flush()
            with pytest.raises(Unavailable):
                await bus.request("rankd.v1.internal.health.scheduler", b"", JobEvents, timeout_s=PATIENCE_S)
            await subscription.unsubscribe()


async def test_garbage_does_not_end_the_connection(broker):
    """nats-py leaves the loop that reads the socket where a header can't be parsed, and is deaf from then on."""
    async with Bus(broker.url, "test") as bus:
        came: list[bytes] = []
        done = asyncio.Event()

        async def on_message(message):
            came.append(message.data)
            if message.data == b"last":
                done.set()

        await bus.client.subscribe("anything", cb=on_message)
        await bus.client.flush()
        publish_raw(broker.url, [("anything", *what) for what in garbage()] + [("anything", None, b"last")])
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
        assert len(came) == len(garbage()) + 1


@pytest.mark.parametrize(
    "token", [b"\x0c", b"a\x0bb", b"\x1c\x1f", b"\x85", b"\xff\xfe", b"\xe2\x80\xa8", b"\x00", b"\x1b[2J"]
)
async def test_no_byte_in_a_subject_or_reply_subject_ends_the_connection(broker, token):
    """The server lets pass all but blanks and line ends; a sender chooses both."""
    async with Bus(broker.url, "test") as bus:
        done = asyncio.Event()

        async def on_message(message):
            if message.subject == "any.last":
                done.set()

        await bus.client.subscribe("any.*", cb=on_message)
        await bus.client.flush()
        place = urlsplit(broker.url)
        with socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S) as connection:
            lines = (
                b"PUB any.%b 2\r\n{}\r\n" % token,
                b"PUB any.x _INBOX.%b 2\r\n{}\r\n" % token,
                b"HPUB any.%b _INBOX.%b 12 14\r\nNATS/1.0\r\n\r\n{}\r\n" % (token, token),
            )
            connection.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n' + b"".join(lines))
            connection.sendall(b"PUB any.last 2\r\n{}\r\nPING\r\n")
            async with asyncio.timeout(PATIENCE_S):
                await done.wait()
        assert bus.outage.since is None

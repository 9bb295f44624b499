"""The one consumer that hands out messages of a stream, and a broker that has lost it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, suppress

import builder
import pytest
from integration.stage import PATIENCE_S, a_cluster

from rankd.bus.connection import LOST, Bus
from rankd.bus.consumer import PullConsumer
from rankd.bus.stream import COMPLETE, ensure_streams, make_streams
from rankd.services.intake.relay import Relay
from rankd.wire.subject import ENQUEUE_PATTERN, STREAM_EVENTS, STREAM_SUBMISSIONS

DURABLE = "intake"
ASK = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM_SUBMISSIONS}.{DURABLE}"


class Reader:
    """Reads the stream of submissions as the intake does."""

    def __init__(self, bus: Bus, batch: int = 256) -> None:
        self._bus = bus
        self._batches = PullConsumer(bus, STREAM_SUBMISSIONS, DURABLE, [ENQUEUE_PATTERN], batch).batches()
        self._waiting: list[bytes] = []

    async def close(self) -> None:
        await self._batches.aclose()

    async def next(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            while not self._waiting:
                for message in await anext(self._batches):
                    self._waiting.append(message.data)
                    with suppress(*LOST):  # then it comes again
                        await message.ack_sync()
        return self._waiting.pop(0)

    async def enqueue(self, text: bytes) -> object:
        while True:  # the broker may have come back a moment ago
            with suppress(*LOST):
                return await self._bus.jetstream.publish("rankd.v1.enqueue.alice", text, timeout=1)


@pytest.fixture
async def reader(broker):
    async with Bus(broker.url, "test") as bus:
        await ensure_streams(bus)
        reading = Reader(bus)
        yield reading
        await reading.close()


def directory(broker, *parts: str):
    [found] = broker._directory.glob("/".join(("jetstream/jetstream/$G/streams", *parts)))
    return found


MOST_REQUESTS = 100
"""One lasts five seconds and a pause follows a failure, so that this many would take minutes."""


@pytest.fixture
def requests(reader, monkeypatch):
    """The requests for messages that the client sends, counted where it sends them: a subscriber would change them."""
    sent: list[str] = []
    publish = reader._bus.client.publish

    async def counting(subject, *values, **more) -> None:
        if subject == ASK:
            sent.append(subject)
            assert len(sent) < MOST_REQUESTS, "the client asks again without a pause"
        await publish(subject, *values, **more)

    monkeypatch.setattr(reader._bus.client, "publish", counting)
    return sent


async def test_a_consumer_that_was_deleted_is_made_again_and_asked_for_seldom(reader, requests):
    """The broker answers a request for a missing consumer at once with 503; it was asked 4,000 times a second."""
    await reader.enqueue(b"1")
    assert await reader.next() == b"1"
    await reader._bus.jetstream.delete_consumer(STREAM_SUBMISSIONS, DURABLE)
    await reader.enqueue(b"2")
    assert await reader.next() == b"2"
    assert len(requests) >= 2


async def test_silence_leads_to_a_consumer_that_is_made_again(broker):
    """Somebody takes the request and does not answer it. A reader with a batch of one asks for the next one late."""
    async with Bus(broker.url, "test") as bus:
        await ensure_streams(bus)
        reader = Reader(bus, batch=1)
        await reader.enqueue(b"1")
        assert await reader.next() == b"1"
        await bus.jetstream.delete_consumer(STREAM_SUBMISSIONS, DURABLE)  # no request is open, so nobody is told
        silent = await bus.client.subscribe(ASK)
        await reader.enqueue(b"2")
        assert await reader.next() == b"2"
        assert silent.pending_msgs >= 1, "a request remained without an answer"
        await reader.close()


async def test_a_consumer_without_its_checksum_is_made_again_for_good(broker, reader):
    """A broker that was killed between the two files; the next one ignores the consumer, however often it is made."""
    await reader.enqueue(b"1")
    assert await reader.next() == b"1"
    broker.kill()
    directory(broker, STREAM_SUBMISSIONS, "obs", DURABLE, "meta.sum").unlink()
    broker.start()
    await reader.enqueue(b"2")
    assert await reader.next() == b"2"
    assert directory(broker, STREAM_SUBMISSIONS, "obs", DURABLE, "meta.sum").exists()


async def test_a_stream_without_its_checksum_is_made_again_with_its_messages(broker, reader):
    await reader.enqueue(b"1")
    assert await reader.next() == b"1"
    await reader.enqueue(b"2")
    broker.kill()
    directory(broker, STREAM_SUBMISSIONS, "meta.sum").unlink()
    broker.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.enqueue(b"3"))
        while await reader.next() != b"3":  # what was handed out before and could not be acknowledged
            pass
    assert directory(broker, STREAM_SUBMISSIONS, "meta.sum").exists()


async def test_a_stream_that_a_killed_service_has_not_completed_is_completed_by_the_next(broker):
    """It made the stream and was killed before it changed it; every service then waited for ever."""
    async with Bus(broker.url, "test") as bus:
        await ensure_streams(bus)
        config = (await bus.jetstream.stream_info(STREAM_EVENTS)).config
        await bus.jetstream.update_stream(config.evolve(description="made again 1"))
        async with asyncio.timeout(PATIENCE_S):
            await ensure_streams(bus)
        assert (await bus.jetstream.stream_info(STREAM_EVENTS)).config.description == COMPLETE


async def test_services_that_make_the_streams_at_once_do_not_hinder_each_other(broker):
    """One found a stream that another was completing, and said that it waited for the broker."""
    async with AsyncExitStack() as stack:
        buses = [await stack.enter_async_context(Bus(broker.url, f"test{number}")) for number in range(8)]
        for _ in range(10):
            async with asyncio.TaskGroup() as group:
                for bus in buses:
                    group.create_task(make_streams(bus))  # tried once: any refusal is raised
            await buses[0].jetstream.delete_stream(STREAM_EVENTS)
            await buses[0].jetstream.delete_stream(STREAM_SUBMISSIONS)


async def test_the_relay_makes_a_stream_again_that_is_missing(broker, tmp_path):
    """Nobody else publishes events, so nobody else would notice."""
    builder.new_database(tmp_path)
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        await cluster.bus.jetstream.delete_stream(STREAM_EVENTS)
        await cluster.add_node("n1")
        relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        async with asyncio.timeout(PATIENCE_S):
            while not await relay.run_once():
                pass
        stored = await cluster.bus.jetstream.get_last_msg(STREAM_EVENTS, "rankd.v1.event.node.n1")
        assert json.loads(stored.data)["events"][0]["event"] == "joined"

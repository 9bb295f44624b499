"""A real cluster of three brokers: copies of streams, alarms, and a consumer whose broker is killed."""

from __future__ import annotations

import asyncio

import builder
import pytest
from integration.broker_cluster import BrokerCluster, ready, until, whole
from integration.stage import ready as service_ready
from integration.stage import rows, running, write_config
from watch import PATIENCE_S

from rankd.bus import stream_alarm
from rankd.bus.connection import Bus
from rankd.bus.consumer import PullConsumer
from rankd.bus.stream import ensure_streams
from rankd.bus.stream_watch import StreamWatch
from rankd.core.errors import Unavailable
from rankd.services.intake import service as intake
from rankd.wire.subject import ENQUEUE_PATTERN, NOTIFIER, STREAM_DEAD_LETTERS, STREAM_EVENTS, STREAM_SUBMISSIONS

STREAMS = (STREAM_EVENTS, STREAM_SUBMISSIONS, STREAM_DEAD_LETTERS)


@pytest.fixture
async def brokers(tmp_path):
    cluster = BrokerCluster(tmp_path / "brokers")
    cluster.start()
    async with Bus(cluster.url, "fixture") as bus:
        await ready(bus)
    yield cluster
    cluster.kill()


@pytest.fixture
async def bus(brokers):
    async with Bus(brokers.url, "test") as connected:
        connected.stream_replicas = 3
        yield connected


async def test_streams_and_their_consumers_are_stored_on_as_many_brokers_as_the_configuration_says(bus):
    await ensure_streams(bus)
    await PullConsumer(bus, STREAM_SUBMISSIONS, "intake", [ENQUEUE_PATTERN]).ensure()
    for stream in STREAMS:
        assert len((await bus.jetstream.stream_info(stream)).cluster.replicas) == 2
    for stream, consumer in ((STREAM_SUBMISSIONS, "intake"), (STREAM_EVENTS, NOTIFIER)):
        assert len((await bus.jetstream.consumer_info(stream, consumer)).cluster.replicas) == 2


async def test_the_copies_of_a_stream_that_exists_are_never_changed_but_reported(bus):
    bus.stream_replicas = 1
    await ensure_streams(bus)
    bus.stream_replicas = 3
    await ensure_streams(bus)
    assert {(await bus.jetstream.stream_info(stream)).config.num_replicas for stream in STREAMS} == {1}
    watch = StreamWatch(bus)
    await watch.run_once()
    said = [alarm for found in watch.found for alarm in found.alarms]
    assert len(said) == len(STREAMS)
    assert all("has 1 of the copies that replicas = 3 asks for" in alarm for alarm in said)


async def test_more_copies_than_a_single_server_can_store_are_refused_with_what_to_do(broker):
    async with Bus(broker.url, "test") as single:
        single.stream_replicas = 3
        with pytest.raises(Unavailable, match=r"can't store 3 copies of the stream RANKD_\w+: .* set replicas = 1"):
            await ensure_streams(single)


@pytest.fixture
def alarmed(bus, monkeypatch):
    """Looks at all streams; returns whether each has an alarm with these words, and none has one without words."""
    monkeypatch.setattr(stream_alarm, "SILENT_S", 3.0)
    monkeypatch.setattr(stream_alarm, "BEHIND_FOR_S", 1.0)
    watch = StreamWatch(bus)

    async def look(words=None):
        await watch.run_once()
        found = [alarm for one in watch.found for alarm in one.alarms]
        if words is None:
            return not found
        return all(any(stream in alarm and words in alarm for alarm in found) for stream in STREAMS)

    return look


async def test_a_copy_that_is_away_is_an_alarm_until_it_is_back(brokers, bus, alarmed):
    await ensure_streams(bus)
    await until(alarmed)
    brokers.brokers[0].kill()
    await until(lambda: alarmed("on broker b0 is away or behind"))
    brokers.brokers[0].start()
    await until(alarmed)


async def test_streams_without_a_leader_are_alarms(brokers, bus, alarmed):
    await ensure_streams(bus)
    await until(alarmed)
    for broker in brokers.brokers[:2]:
        broker.kill()
    await until(lambda: alarmed("has no leader, so nothing can be stored in it"))
    for broker in brokers.brokers[:2]:
        broker.start()  # for the end of the test


async def test_an_intake_goes_on_reading_when_the_broker_that_leads_its_stream_is_killed(brokers, bus, tmp_path):
    """The intake may be connected to another broker: then its connection does not even notice."""
    builder.new_database(tmp_path)
    config = write_config(tmp_path / "config")
    with (config / "rankd.toml").open("a") as file:
        file.write("[nats]\nreplicas = 3\n")
    options = intake.IntakeOptions(nats=brokers.url, db=str(tmp_path / "rankd.db"), config=config)
    async with running(intake.run, options):
        await service_ready(bus, "intake")
        await whole(bus, STREAM_SUBMISSIONS)
        await enqueue(bus, "before")
        await until(lambda: taken(tmp_path, "before"))
        leader = brokers.leader_of(await bus.jetstream.stream_info(STREAM_SUBMISSIONS))
        leader.kill()
        await enqueue(bus, "after")
        await until(lambda: taken(tmp_path, "after"))
        leader.start()
    assert len(rows(tmp_path / "rankd.db", "SELECT id FROM jobs")) == 2


async def enqueue(bus, key):
    """Publish until it is acknowledged, as publishers are told to."""
    payload = b'{"command": ["true"]}'

    async def published():
        stream = bus.client.jetstream(timeout=1)
        return await stream.publish("rankd.v1.enqueue.alice", payload, headers={"Nats-Msg-Id": key})

    await until(published)


async def taken(directory, key):
    async with asyncio.timeout(PATIENCE_S):
        return rows(directory / "rankd.db", "SELECT id FROM jobs WHERE key = ?", key)

"""Jobs on a real cluster of brokers that are killed with SIGKILL one after the other, at most one away at a time.

CI kills one. ``RANKD_TEST_BROKER_KILLS=30`` kills more of them, in turn.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter

import builder
from integration.broker_cluster import BrokerCluster, ready, until, whole
from integration.stage import process, rows, running, write_config
from integration.stage import ready as service_ready

from rankd.bus.connection import Bus
from rankd.services.intake import service as intake
from rankd.services.prioritizer import service as prioritizer
from rankd.services.scheduler import service as scheduler
from rankd.wire.codec import encode
from rankd.wire.subject import STREAM_EVENTS, STREAM_SUBMISSIONS
from rankd.wire.submission import Submitted

KILLS = int(os.environ.get("RANKD_TEST_BROKER_KILLS", "1"))
PUBLISH_S = 1.0


class Submitters:
    """Two users who submit job after job, by request and by the enqueue subject, each until it is accepted."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stop = asyncio.Event()
        self.accepted = Counter[str]()

    async def ask(self) -> None:
        for key in self._keys("asked"):
            body = {"command": ["true"], "key": key}
            await until(lambda body=body: self._asked(body))
            self.accepted["asked"] += 1

    async def _asked(self, body):
        return await self._bus.request("rankd.v1.user.alice.job.submit", encode(body), Submitted, timeout_s=PUBLISH_S)

    async def enqueue(self) -> None:
        for key in self._keys("enqueued"):
            await until(lambda key=key: self._enqueued(key))
            self.accepted["enqueued"] += 1

    async def _enqueued(self, key):
        stream = self._bus.client.jetstream(timeout=PUBLISH_S)
        return await stream.publish("rankd.v1.enqueue.bob", b'{"command": ["true"]}', headers={"Nats-Msg-Id": key})

    def _keys(self, way):
        numbers = itertools.takewhile(lambda _number: not self._stop.is_set(), itertools.count())
        return (f"{way}-{number}" for number in numbers)

    def stop(self) -> None:
        self._stop.set()

    async def more(self, way: str) -> None:
        """Until one more is accepted that was begun after now."""
        wanted = self.accepted[way] + 2
        await until(lambda: self._has(way, wanted))

    async def _has(self, way, wanted):
        return self.accepted[way] >= wanted


async def test_nothing_accepted_is_lost_and_nothing_starts_twice_while_brokers_are_killed(tmp_path):
    brokers = BrokerCluster(tmp_path / "brokers")
    brokers.start()
    try:
        await _run(brokers, tmp_path)
    finally:
        brokers.kill()


async def _run(brokers, directory) -> None:
    builder.new_database(directory)
    config = write_config(directory / "config")
    with (config / "rankd.toml").open("a") as file:
        file.write("[nats]\nreplicas = 3\n")
    options = {"nats": brokers.url, "db": str(directory / "rankd.db"), "config": config}
    async with (
        Bus(brokers.url, "test") as bus,
        asyncio.TaskGroup() as group,
    ):
        await ready(bus)
        async with (
            running(intake.run, intake.IntakeOptions(**options)),
            running(prioritizer.run, prioritizer.PrioritizerOptions(**options)),
            running(scheduler.run, scheduler.SchedulerOptions(**options)),
            process("agent", nats=brokers.url, name="sim", state=directory / "agent", simulate=8),
        ):
            for service in ("intake", "prioritizer", "scheduler"):
                await service_ready(bus, service)
            submitters = Submitters(bus)
            group.create_task(submitters.ask())
            group.create_task(submitters.enqueue())
            for broker in itertools.islice(itertools.cycle(brokers.brokers), KILLS):
                await whole(bus, STREAM_SUBMISSIONS, STREAM_EVENTS)
                broker.kill()
                await submitters.more("asked")
                await submitters.more("enqueued")
                broker.start()
            submitters.stop()
            await until(lambda: _all_ended(directory, submitters))
    _check(directory, submitters)


async def _all_ended(directory, submitters):
    """Whether every accepted job is there and has ended."""
    states = Counter(state for (state,) in rows(directory / "rankd.db", "SELECT state FROM jobs"))
    return states["completed"] >= sum(submitters.accepted.values()) and set(states) == {"completed"}


def _check(directory, submitters) -> None:
    keys = Counter(key for (key,) in rows(directory / "rankd.db", "SELECT key FROM jobs"))
    accepted = {f"{way}-{number}" for way, count in submitters.accepted.items() for number in range(count)}
    assert accepted <= set(keys), "an accepted job is lost"
    assert set(keys.values()) == {1}, "a job was stored twice"
    query = "SELECT job_id, count(*) FROM job_events WHERE event = 'start' GROUP BY job_id"
    starts = rows(directory / "rankd.db", query)
    assert len(starts) == len(keys)
    assert {count for _, count in starts} == {1}, "a job started twice"

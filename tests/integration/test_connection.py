"""A connection and a broker that stands still for a while."""

import asyncio
import logging

import nats.errors
import pytest

from rankd.bus.connection import Bus
from rankd.core.errors import Unavailable
from rankd.services import runtime
from rankd.store.database import Database


async def cancelled(task):
    """By a task that begins after it."""
    task.cancel()


async def test_a_pong_that_comes_too_late_leaves_the_connection_hearing(broker, caplog):
    """A flush that has run out of time, and one that was cancelled."""
    async with Bus(broker.url, "test") as bus:
        heard = asyncio.Event()

        async def on_message(_message):
            heard.set()

        await bus.client.subscribe("here", cb=on_message)
        await bus.client.flush()
        broker.stall()
        with pytest.raises(nats.errors.FlushTimeoutError):
            await bus.client.flush(0.05)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(bus.client.flush())
            group.create_task(cancelled(waiting))
        broker.go_on()
        await bus.client.flush()
        await bus.client.publish("here", b"")
        await heard.wait()
        assert bus.client.stats["reconnects"] == 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_health_says_that_the_broker_stands_still_and_then_that_it_is_back(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "PROBE_S", 0.05)
    async with Database(tmp_path / "rankd.db") as database, Bus(broker.url, "test") as bus:
        assert "bus" in await runtime.probe(database, bus)
        broker.stall()
        with pytest.raises(Unavailable, match="does not answer"):
            await runtime.probe(database, bus)
        broker.go_on()
        await bus.client.flush()
        assert "bus" in await runtime.probe(database, bus)
        assert bus.client.stats["reconnects"] == 0

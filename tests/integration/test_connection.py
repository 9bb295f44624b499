"""A connection and a broker that stands still for a while."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import nats.errors
import pytest
import uvloop
from listening import a_server as serving
from watch import PATIENCE_S

from rankd.bus.client import PatientClient
from rankd.bus.connection import LOST, Bus
from rankd.core.errors import Unavailable
from rankd.services.runtime import life as runtime
from rankd.store.engine.url import open_database


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


@asynccontextmanager
async def a_server(commands):
    """A server that notes the commands after the handshake, and answers pings. Yields its URL."""

    async def serve(reader, writer):
        info = {"server_id": "test", "version": "2.12.0", "host": "127.0.0.1", "port": 0, "max_payload": 2**20}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        handshaken = False
        while line := await reader.readline():
            word = line.split()[0].decode()
            if handshaken:
                commands.append(word)
            if word == "PING":
                handshaken = True
                writer.write(b"PONG\r\n")

    async with serving(serve) as port:
        yield f"nats://127.0.0.1:{port}"


async def test_a_flush_follows_the_commands_before_it():
    """Else its pong comes before the server knows of the subscription, and the first request after it is lost."""
    commands = []
    async with a_server(commands) as url:
        client = PatientClient()
        await client.connect(url)
        first = await client.subscribe("here")
        await client.flush()
        assert commands == ["SUB", "PING"]
        await client.subscribe("there")
        await first.unsubscribe()
        await client.flush()
        assert commands == ["SUB", "PING", "SUB", "UNSUB", "PING"]
        await client.subscribe("anywhere")
        await client.rtt()
        assert commands[-2:] == ["SUB", "PING"]
        await client.close()


async def test_health_says_that_the_broker_stands_still_and_then_that_it_is_back(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "PROBE_S", 0.05)
    async with open_database(tmp_path / "rankd.db") as database, Bus(broker.url, "test") as bus:
        assert "bus" in await runtime.probe(database, bus)
        broker.stall()
        with pytest.raises(Unavailable, match="does not answer"):
            await runtime.probe(database, bus)
        broker.go_on()
        await bus.client.flush()
        assert "bus" in await runtime.probe(database, bus)
        assert bus.client.stats["reconnects"] == 0


class Losing(PatientClient):
    """Loses the first cancellation, as nats-py can with Python 3.11 where the broker goes away at that very moment."""

    has_lost = False

    async def connect(self, *options, **more):
        try:
            await super().connect(*options, **more)
        except asyncio.CancelledError:
            if Losing.has_lost:
                raise
            Losing.has_lost = True
            raise ConnectionResetError from None


async def test_a_connection_is_given_up_in_time_also_where_the_cancellation_is_lost(monkeypatch):
    """A command tried to connect for ever: its timeout had passed, and passes once only."""
    monkeypatch.setattr("rankd.bus.connection.PatientClient", Losing)
    monkeypatch.setattr(Losing, "has_lost", False)
    held = []
    silent = await asyncio.start_server(lambda _reader, writer: held.append(writer), "127.0.0.1", 0)
    url = f"nats://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, asyncio.timeout(PATIENCE_S):
        with pytest.raises(Unavailable, match="no NATS server"):
            async with Bus(url, "test", connect_timeout_s=0.05):
                pass
    assert Losing.has_lost
    for writer in held:  # else the garbage collector closes it, in whichever test it runs next
        writer.close()
        await writer.wait_closed()


def test_a_flush_over_a_socket_that_has_just_closed_says_that_the_connection_is_lost(broker):
    """uvloop raises a RuntimeError there, with which an agent ended in a soak."""

    async def flush() -> None:
        client = PatientClient()
        await client.connect(broker.url, max_reconnect_attempts=-1)
        client._transport._io_writer.transport.abort()
        await asyncio.sleep(0)  # the socket is closed now, and the client has not noticed
        assert client.is_connected
        try:
            with pytest.raises(ConnectionResetError) as lost:
                await client.flush()
            assert isinstance(lost.value, LOST)
        finally:
            await client.close()

    uvloop.run(flush())

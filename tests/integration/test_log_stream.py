"""A job's bytes over connections that are cut and stalled, and agents that are started again: none lost, none twice."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
from soak.link import Link
from watch import LOOK_EVERY_S, PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.log_stream import LogStream
from rankd.client.asker import Asker
from rankd.client.job_output import JobOutput
from rankd.core.errors import Refused
from rankd.services.agent.runner import Around
from rankd.services.agent.session_service import Sessions
from rankd.wire.codec import encode
from rankd.wire.session import GRANTED_S, Grant, JobLog, LogWish, Opened, SessionOpened
from rankd.wire.subject import node_subject, session_grant, session_out, user_request


class Granting:
    """Grants every session, as an intake does. ``state``: of the one job."""

    def __init__(self, bus: Bus, path: str) -> None:
        self._bus = bus
        self._path = path
        self._waiting: dict[str, asyncio.Future[Opened]] = {}
        self.asked = 0

    async def start(self) -> None:
        import msgspec

        async def on_opened(message) -> None:
            opened = msgspec.json.decode(message.data, type=Opened)
            waiting = self._waiting.get(opened.session)
            if waiting is not None and not waiting.done():
                waiting.set_result(opened)
            await message.respond(encode({"taken": 1}))

        async def on_log(message) -> None:
            wanted = msgspec.json.decode(message.data, type=JobLog)
            self.asked += 1
            self._waiting[wanted.session] = asyncio.get_running_loop().create_future()
            await self._bus.publish(session_grant("n1"), self._grant(wanted))
            async with asyncio.timeout(5):
                await self._waiting[wanted.session]
            reply = SessionOpened(
                session=wanted.session, subject=session_out("alice", "n1", wanted.session), node="n1", nodes=["n1"],
                attempt=1, attempts=1, state="running", path=self._path,
            )  # fmt: skip
            await message.respond(encode(reply))

        await self._bus.client.subscribe(node_subject("n1", "opened"), cb=on_opened)
        await self._bus.client.subscribe(user_request("alice", "job.log"), cb=on_log)
        await self._bus.client.flush()

    def _grant(self, wanted: JobLog) -> Grant:
        wish = LogWish(
            stream="stdout", path=self._path, offset=wanted.offset, follow=wanted.follow, again=wanted.again,
            limit=wanted.limit, tail_bytes=wanted.tail_bytes,
        )  # fmt: skip
        return Grant(
            user="alice", node="n1", job=1, attempt=1, allocation=1, owner="alice", session=wanted.session,
            issued_at=0.0, expires_at=GRANTED_S, started_at=None, state="running", wish=wish,
        )  # fmt: skip


@asynccontextmanager
async def serving(url: str, is_running):
    """The sessions of an agent."""
    bus = Bus(url, "agent-n1-sessions")
    sessions = Sessions(bus, ["n1"], Around(lambda _user: None, is_running))
    task = asyncio.get_running_loop().create_task(sessions.run())
    try:
        await sessions.ready.wait()
        yield sessions
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def linked(port: int):
    link = Link(port)
    await link.start()
    try:
        yield link
    finally:
        await link.stop()


async def read(stream: LogStream | JobOutput, got: bytearray) -> None:
    async for part in stream.parts():
        got += part


async def until(is_reached) -> None:
    while not is_reached():
        await asyncio.sleep(LOOK_EVERY_S)


async def read_all(parts) -> bytes:
    return b"".join([part async for part in parts])


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_cut_and_stalled_connections_lose_and_repeat_no_byte(broker, tmp_path, seed):
    """Of the client and of the agent, at random, while the file grows by random parts."""
    chance, running = random.Random(seed), True
    (path := tmp_path / "log").touch()
    content = bytearray()
    port = int(broker.url.rpartition(":")[2])
    async with linked(port) as of_client, linked(port) as of_agent, Bus(broker.url, "intake") as bus:
        await (granting := Granting(bus, str(path))).start()
        async with serving(of_agent.url, lambda _allocation: running), Bus(of_client.url, "client") as client:
            got = bytearray()
            stream = LogStream(client, Asker("alice"), JobLog(id=1, follow=True), patience_s=None)
            reading = asyncio.get_running_loop().create_task(read(stream, got))
            for _ in range(40):
                part = chance.randbytes(chance.randrange(150_000))
                content += part
                with path.open("ab") as file:
                    file.write(part)
                link = chance.choice((of_client, of_agent))
                match chance.randrange(8):
                    case 0:
                        link.cut()
                    case 1:
                        link.stall()
                    case _:
                        of_client.mend()
                        of_agent.mend()
                await asyncio.sleep(chance.random() * 0.1)
            of_client.mend()
            of_agent.mend()
            running = False
            async with asyncio.timeout(PATIENCE_S):
                await reading
    assert bytes(got) == bytes(content)
    assert granting.asked >= 1


async def test_an_agent_that_is_started_again_goes_on_where_the_client_is(broker, tmp_path):
    path, content = tmp_path / "log", random.Random(5).randbytes(3_000_000)
    path.write_bytes(content)
    async with Bus(broker.url, "intake") as bus, Bus(broker.url, "client") as client, asyncio.timeout(PATIENCE_S):
        await Granting(bus, str(path)).start()
        stream = LogStream(client, Asker("alice"), JobLog(id=1), patience_s=None)
        async with serving(broker.url, lambda _allocation: False):
            parts = stream.parts()
            got = await anext(parts)
        async with serving(broker.url, lambda _allocation: False):
            got += b"".join([part async for part in parts])
    assert got == content


@pytest.mark.parametrize("written", [b"", b"new\n", b"quite other text, and more of it than before\n"])
async def test_a_file_that_its_job_empties_is_followed_from_its_new_beginning(broker, tmp_path, written):
    """Also where as much is written to it again before anybody looks."""
    (path := tmp_path / "log").write_bytes(b"what was there before\n")
    got, said = bytearray(), list[str]()
    async with Bus(broker.url, "intake") as bus, Bus(broker.url, "client") as client, asyncio.timeout(PATIENCE_S):
        await Granting(bus, str(path)).start()
        async with serving(broker.url, lambda _allocation: True):
            output = JobOutput(client, Asker("alice"), JobLog(id=1, follow=True), said.append)
            reading = asyncio.get_running_loop().create_task(read(output, got))
            await until(lambda: got.endswith(b"before\n"))
            path.write_bytes(written)
            await until(lambda: said)
            with path.open("ab") as file:
                file.write(b"end\n")
            await until(lambda: got.endswith(b"end\n"))
            reading.cancel()
    assert bytes(got) == b"what was there before\n" + written + b"end\n"
    assert said == [f"the job has emptied its file {path}; going on from its new beginning"]


@pytest.mark.parametrize("is_again", [False, True])
async def test_a_file_that_is_emptied_while_it_is_read_once_is_an_error(broker, tmp_path, is_again):
    """``is_again``: another agent, which does not know what the first one has sent."""
    (path := tmp_path / "log").write_bytes(b"x" * 3_000_000)
    async with Bus(broker.url, "intake") as bus, Bus(broker.url, "client") as client, asyncio.timeout(PATIENCE_S):
        await Granting(bus, str(path)).start()
        parts = LogStream(client, Asker("alice"), JobLog(id=1), patience_s=None).parts()
        async with serving(broker.url, lambda _allocation: False):
            await anext(parts)
            path.write_bytes(b"little")
            if not is_again:
                with pytest.raises(Refused, match="has emptied its file"):
                    await read_all(parts)
        if is_again:
            async with serving(broker.url, lambda _allocation: False):
                with pytest.raises(Refused, match="has emptied its file"):
                    await read_all(parts)


async def test_a_client_that_vanishes_is_forgotten(broker, tmp_path, monkeypatch):
    from rankd.services.agent import session

    monkeypatch.setattr(session, "FORGET_S", 0.5)
    monkeypatch.setattr(session, "LOOK_S", 0.1)
    (path := tmp_path / "log").write_bytes(b"hello")
    async with Bus(broker.url, "intake") as bus, Bus(broker.url, "client") as client, asyncio.timeout(PATIENCE_S):
        await Granting(bus, str(path)).start()
        async with serving(broker.url, lambda _allocation: True) as sessions:
            await LogStream(client, Asker("alice"), JobLog(id=1, follow=True), patience_s=None).open()
            [reader] = sessions._readers._readers.values()
            assert (len(sessions._open), reader.handles) == (1, 1)
            while sessions._open or reader.handles:
                await asyncio.sleep(LOOK_EVERY_S)


async def test_input_of_a_user_without_a_session_reaches_no_agent(broker, tmp_path):
    """And nothing that a client sends ends its session or the agent's."""
    (path := tmp_path / "log").write_bytes(b"x" * 1_000)
    async with Bus(broker.url, "intake") as bus, Bus(broker.url, "client") as client, asyncio.timeout(PATIENCE_S):
        await Granting(bus, str(path)).start()
        async with serving(broker.url, lambda _allocation: False) as sessions:
            stream = LogStream(client, Asker("alice"), JobLog(id=1), patience_s=None)
            await stream.open()
            subject = session_out("alice", "n1", stream._session)[: -len("out")] + "in"
            for hostile in (b"", b"[]", b"\xff", b'{"type":"consumed","stream":"stdout","offset":9223372036854775807}'):
                await client.client.publish(subject, hostile)
                await client.client.publish(subject, b'{"type":"alive"}', reply="rankd.v1.node.n1.allocation")
                await client.client.publish(subject.replace(".alice.", ".bob."), hostile)
            assert b"".join([part async for part in stream.parts()]) == b"x" * 1_000
            assert sessions._bus.client.is_connected

"""A client's part of a session, over a real broker. The test plays the intake and the agent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.refusal import respond_error
from rankd.client.asker import Asker
from rankd.client.attachment import Attachment
from rankd.client.interaction import _opened
from rankd.core.errors import Refused
from rankd.wire.codec import decode_strict, encode
from rankd.wire.session import (
    CONTROL,
    END,
    FIRST,
    KIND,
    OFFSET,
    STREAM,
    Again,
    Exited,
    FromClient,
    JobAttach,
    SessionOpened,
    Step,
)
from rankd.wire.subject import session_in, session_out


class OlderStep(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A step, as intakes knew it that did not number steps."""

    command: list[str]
    env: dict[str, str] = {}
    begins: bool = False


class OlderAttach(msgspec.Struct, forbid_unknown_fields=True):
    """The same, of a request."""

    id: int
    session: str
    step: OlderStep
    node: str | None = None
    offsets: dict[str, int] = {}


class Intakes:
    """Answers as the intake whose turn it is; later as the last one. ``steps``: what was granted."""

    def __init__(self, node: Bus, *turns: str) -> None:
        self._node = node
        self._turns = list(turns)
        self.asked: list[str] = []
        self.steps: list[Step | OlderStep] = []
        self.later = asyncio.Event()

    async def answer(self, message):
        version = self._turns.pop(0) if self._turns else self.asked[-1]
        self.asked.append(version)
        try:
            wanted = decode_strict(message.data, OlderAttach if version == "older" else JobAttach)
        except Refused as error:
            await respond_error(message, error)
            return
        self.steps.append(wanted.step)
        number = 7 if version == "newer" and wanted.step.begins else None
        opened = SessionOpened(
            session=wanted.session,
            subject="",
            node="n1",
            nodes=["n1"],
            attempt=1,
            attempts=1,
            state="running",
            step=number,
        )
        await self._node.client.publish(message.reply, encode(opened))
        if len(self.steps) == 3:
            self.later.set()


async def test_a_session_goes_on_when_an_intake_of_an_older_version_takes_over(broker):
    alice, step = Asker("alice"), Step(command=["true"], begins=True)
    async with Bus(broker.url, "node") as node, Bus(broker.url, "client") as client:
        intakes = Intakes(node, "newer", "older", "older", "newer")
        await node.client.subscribe(alice.subject("job.attach"), cb=intakes.answer)
        await node.client.flush()
        session = Attachment(client, alice, JobAttach(id=1, step=step), lambda *_: None, ("stdout",))
        assert (await session.open()).step == 7
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            keeping = group.create_task(session.keep())  # asks soon: no agent listens
            later = group.create_task(intakes.later.wait())
            await asyncio.wait({keeping, later}, return_when=asyncio.FIRST_COMPLETED)
            keeping.cancel()
            later.cancel()
    assert session.failure is None
    assert intakes.asked[:4] == ["newer", "older", "older", "newer"], "the same again, at once, after a refusal"
    first, second, third = intakes.steps[:3]
    assert (first.begins, second.begins, third.begins) == (True, False, False)
    assert third.number is None, "an older intake would refuse it again"


async def test_a_further_task_begins_at_an_intake_of_an_older_version(broker):
    alice, step = Asker("alice"), Step(command=["true"], begins=True, env={"A": "1"}, number=7, task=2)
    async with Bus(broker.url, "node") as node, Bus(broker.url, "client") as client:
        intakes = Intakes(node, "older")
        await node.client.subscribe(alice.subject("job.attach"), cb=intakes.answer)
        await node.client.flush()
        session = Attachment(client, alice, JobAttach(id=1, node="n1", step=step), lambda *_: None, ("stdout",))
        await session.open()
    assert intakes.asked == ["older", "older"]
    [begun] = intakes.steps
    assert (begun.begins, begun.env) == (True, {"A": "1", "RANKD_STEP_ID": "7"}), "as the other tasks of its step"


async def test_missing_bytes_are_asked_for_again_if_what_was_asked_for_is_lost_too(broker):
    alice, shown, asked = Asker("alice"), bytearray(), asyncio.Queue()

    def write(_stream, part, then):
        shown.extend(part)
        then()

    async with Bus(broker.url, "node") as node, Bus(broker.url, "client") as client:

        async def grant(message):
            id_ = msgspec.json.decode(message.data, type=JobAttach).session
            opened = SessionOpened(
                session=id_, subject="", node="n1", nodes=["n1"], attempt=1, attempts=1, state="running"
            )
            await node.client.publish(message.reply, encode(opened))

        async def hear(message):
            said = msgspec.json.decode(message.data, type=FromClient)
            if isinstance(said, Again):
                await asked.put(said.offset)

        await node.client.subscribe(alice.subject("job.attach"), cb=grant)
        await node.client.subscribe(session_in("alice", "n1", None), cb=hear)
        await node.client.flush()
        session = Attachment(client, alice, JobAttach(id=1), write, ("stdout",))
        await session.open()
        out = session_out("alice", "n1", session._session)

        async def until_asked() -> int:
            """What the client asks for while it hears only of bytes behind those that are missing."""
            while True:
                await node.client.publish(out, b"lo", headers={STREAM: "stdout", OFFSET: "3"})
                try:
                    async with asyncio.timeout(0.2):
                        return await asked.get()
                except TimeoutError:
                    continue

        async with asyncio.timeout(PATIENCE_S):
            assert [await until_asked(), await until_asked()] == [0, 0], "the answer to the first has been lost"
            await node.client.publish(out, b"hello", headers={STREAM: "stdout", OFFSET: "0", END: "true"})
            await node.client.publish(out, encode(Exited(exit_status=0)), headers={KIND: CONTROL})
            await session.over.wait()
    assert bytes(shown) == b"hello"


class Played:
    """A session with a client, of which the test is the node. ``shown``: what the client has written."""

    def __init__(self, node: Bus, client: Bus) -> None:
        self.shown = bytearray()
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self._node = node
        self.session = Attachment(client, Asker("alice"), JobAttach(id=1), self._write, ("stdout",))

    def _write(self, _stream, part, then) -> None:
        self.shown += part
        then()

    async def begin(self) -> None:
        await self._node.client.subscribe(Asker("alice").subject("job.attach"), cb=self._grant)
        await self._node.client.subscribe(session_in("alice", "n1", None), cb=self._hear)
        await self._node.client.flush()
        await self.session.open()

    async def _grant(self, message) -> None:
        id_ = msgspec.json.decode(message.data, type=JobAttach).session
        opened = SessionOpened(session=id_, subject="", node="n1", nodes=["n1"], attempt=1, attempts=1, state="running")
        await self._node.client.publish(message.reply, encode(opened))

    async def _hear(self, message) -> None:
        said = msgspec.json.decode(message.data, type=FromClient)
        if isinstance(said, Again):
            self.asked.put_nowait(said.offset)

    async def send(self, part: bytes, offset: int, **headers: str) -> None:
        out = session_out("alice", "n1", self.session._session)
        await self._node.client.publish(out, part, headers={STREAM: "stdout", OFFSET: str(offset)} | headers)

    async def tell(self, message: Exited) -> None:
        out = session_out("alice", "n1", self.session._session)
        await self._node.client.publish(out, encode(message), headers={KIND: CONTROL})


@asynccontextmanager
async def playing(broker):
    async with Bus(broker.url, "node") as node, Bus(broker.url, "client") as client:
        played = Played(node, client)
        await played.begin()
        async with asyncio.timeout(PATIENCE_S):
            yield played


async def test_a_session_is_not_over_before_its_status_is_known(broker):
    async with playing(broker) as played:
        await played.send(b"all", 0)
        await played.send(b"", 3, **{END: "true"})  # the status was lost with a connection of the node
        await played.send(b"", 9)
        assert await played.asked.get() == 3, "the end has arrived"
        assert not played.session.over.is_set()
        await played.tell(Exited(exit_status=3))
        await played.session.over.wait()
    assert played.session.exited.result().exit_status == 3


@pytest.mark.parametrize(("file", "missing"), [(b"0123456", 0), (b"0123", 2), (None, 5)])
async def test_what_the_node_does_not_keep_any_more_is_taken_from_the_file(broker, file, missing):
    async def rest(opened, stream, begin, end):
        if file is None:
            raise Refused("log_gone", "the file was removed")
        assert (opened.node, stream) == ("n1", "stdout")
        yield file[begin:end]

    async with playing(broker) as played:
        played.session.rest = rest
        await played.send(b"0", 0)
        await played.send(b"67", 6, **{FIRST: "6"})
        assert await played.asked.get() == 6
        await played.send(b"67", 6, **{FIRST: "6"})
        await played.tell(Exited(exit_status=0))
        await played.send(b"", 8, **{END: "true"})
        await played.session.over.wait()
    assert bytes(played.shown) == b"0" + (file or b"")[1:6] + b"67"
    assert played.session.missing == missing


async def test_a_session_that_is_gone_is_read_to_the_end_from_the_file(broker):
    async def rest(_opened, _stream, begin, end):
        assert end is None
        yield b"0123456"[begin:]

    async with playing(broker) as played:
        played.session.rest = rest
        await played.send(b"012", 0)
        await played.send(b"", 9)
        assert await played.asked.get() == 3
        played.session._fail(Refused("session_gone", "it has ended"))
        await played.session.read_to_the_end()
    assert (bytes(played.shown), played.session.failure) == (b"0123456", None)


async def test_a_process_of_a_job_waits_until_rankd_has_heard_of_its_start(broker):
    alice, asked = Asker("alice"), []
    async with Bus(broker.url, "node") as node, Bus(broker.url, "client") as client:

        async def answer(message):
            asked.append(id_ := msgspec.json.decode(message.data, type=JobAttach).session)
            if len(asked) in (1, 2):
                await respond_error(message, Refused("not_started", "job 1 is pending", "id", status=409))
                return
            opened = SessionOpened(
                session=id_, subject="", node="n1", nodes=["n1"], attempt=1, attempts=1, state="running"
            )
            await node.client.publish(message.reply, encode(opened))

        await node.client.subscribe(alice.subject("job.attach"), cb=answer)
        await node.client.flush()
        session = Attachment(client, alice, JobAttach(id=1), lambda *_: None, ("stdout",))
        with pytest.raises(Refused, match="pending"):
            await _opened(session)
        assert (await _opened(session, is_within=True)).node == "n1"
    assert len(asked) == 3

"""A client's part of a session, over a real broker. The test plays the intake and the agent."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.refusal import respond_error
from rankd.client import interaction
from rankd.client.asker import Asker
from rankd.client.attachment import Attachment
from rankd.client.interaction import _opened
from rankd.core.errors import Refused
from rankd.services.agent.attach_session import AttachSession, Node
from rankd.services.keeper import relay_frame as kinds
from rankd.wire.codec import decode_strict, encode
from rankd.wire.session import (
    CONTROL,
    END,
    FIRST,
    KIND,
    OFFSET,
    STREAM,
    Again,
    Alive,
    AttachWish,
    Exited,
    FromClient,
    Grant,
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

    async def ends_at(self, offset: int) -> None:
        """The process ends with 0, and its output here; returns once the client has all."""
        await self.tell(Exited(exit_status=0))
        await self.send(b"", offset, **{END: "true"})
        await self.session.over.wait()


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
        await played.ends_at(8)
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


async def test_a_session_that_is_gone_while_its_file_is_read_shows_each_byte_once(broker):
    content, goes_on = bytes(range(200)), asyncio.Event()

    async def rest(_opened, _stream, begin, end):
        for at in range(begin, end or len(content), 10):
            if at > 50:
                await goes_on.wait()
            yield content[at : min(at + 10, end or len(content))]

    async with playing(broker) as played:
        played.session.rest = rest
        await played.send(content[:5], 0)
        await played.send(content[150:160], 150, **{FIRST: "150"})
        while len(played.shown) < 50:
            await asyncio.sleep(0.01)
        played.session._fail(Refused("session_gone", "it has ended"))
        async with asyncio.TaskGroup() as group:
            group.create_task(played.session.read_to_the_end())
            await asyncio.sleep(0)
            goes_on.set()
        await asyncio.gather(*played.session._tasks, return_exceptions=True)
    assert bytes(played.shown) == content
    assert played.session.missing == 0


@pytest.mark.parametrize("file", [b"", b"01", b"new content, longer", b"012"])
async def test_a_file_that_does_not_have_what_was_shown_is_not_read_on(broker, file):
    """The job has emptied it, or its disk was full: the rest is said to be missing, and not made up."""

    async def rest(_opened, _stream, begin, end):
        for at in range(begin, len(file) if end is None else end):
            yield file[at : at + 1]

    async with playing(broker) as played:
        played.session.rest = rest
        await played.send(b"012", 0)
        await played.send(b"", 9)
        assert await played.asked.get() == 3
        if file == b"012":  # all is there
            await played.session.read_to_the_end()
        else:
            with pytest.raises(Refused, match="what the session has shown"):
                await played.session.read_to_the_end()
    assert bytes(played.shown) == b"012"


@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_what_a_full_disk_has_left_out_of_the_file_is_counted_as_missing(broker, size):
    file = b"012" + b"\n[rankd: 41 bytes are missing here: the disk was full]\n" + b"rest" * 30

    async def rest(_opened, _stream, begin, end):
        for at in range(begin, len(file) if end is None else end, size):
            yield file[at : at + size if end is None else min(at + size, end)]

    async with playing(broker) as played:
        played.session.rest = rest
        await played.send(b"0", 0)
        await played.send(b"", 9)
        assert await played.asked.get() == 1
        await played.session.read_to_the_end()
    assert bytes(played.shown) == file, "with the line that says so"
    assert played.session.missing == 41


async def test_behind_what_a_full_disk_has_left_out_a_file_is_no_part_of_a_stream(broker):
    file = b"012" + b"\n[rankd: 41 bytes are missing here: the disk was full]\n" + b"rest" * 30

    async def rest(_opened, _stream, begin, end):
        yield file[begin:3]
        yield file[3:end]

    async with playing(broker) as played:
        played.session.rest = rest
        await played.send(b"0", 0)
        await played.send(b"more", 100, **{FIRST: "100"})
        assert await played.asked.get() == 100
        await played.send(b"more", 100, **{FIRST: "100"})
        await played.ends_at(104)
    assert (bytes(played.shown), played.session.missing) == (b"012more", 97)


async def test_an_end_is_not_repeated_while_bytes_are_sent_again():
    sent = []

    async def send(_subject, data, headers):
        sent.append((int(headers[OFFSET]), END in headers) if OFFSET in headers else data)
        return True

    wish = AttachWish()
    grant = Grant(
        user="alice", node="n1", job=1, attempt=1, allocation=1, owner="alice", session="s1", issued_at=0.0,
        expires_at=60.0, started_at=0.0, state="running", wish=wish,
    )  # fmt: skip
    session = AttachSession(grant, wish, Node(Path(), None, lambda _: None, lambda *_: None), send, bool)
    await session._carry_out(Alive(), "client")

    async def end() -> None:
        await session._pass_on(kinds.END, 0, kinds.ENDED.pack(0, 6, 0))

    await session._pass_on(kinds.OUTPUT, 0, b"012345")
    await end()
    assert sent[-2:] == [(6, True), (0, True)]
    for part in (None, b"01"):
        sent.clear()
        if part is None:
            await session._carry_out(Again(stream="stdout", offset=0), "client")
        else:
            await session._pass_on(kinds.OUTPUT, 0, part)
        await session._carry_out(Alive(), "client")
        assert not any(is_end for _, is_end in (each for each in sent if isinstance(each, tuple)))
    await session._pass_on(kinds.OUTPUT, 2, b"2345")
    await end()
    sent.clear()
    await session._carry_out(Alive(), "client")
    assert sent[-2:] == [(6, True), (0, True)]


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
        listens = (len(client.client._subs), len(client.after_reconnect))
        assert (await _opened(session, is_within=True)).node == "n1"
        assert (len(client.client._subs), len(client.after_reconnect)) == listens, "one subscription, however often"
    assert len(asked) == 3


async def test_a_process_of_a_job_of_whose_start_rankd_never_hears_gives_up(broker, monkeypatch):
    monkeypatch.setattr(interaction, "MOST_NOT_STARTED_S", 0.15)
    alice, asked = Asker("alice"), []
    async with Bus(broker.url, "node") as node, Bus(broker.url, "client") as client:

        async def answer(message):
            asked.append(message)
            await respond_error(message, Refused("not_started", "job 1 is pending", "id", status=409))

        await node.client.subscribe(alice.subject("job.attach"), cb=answer)
        await node.client.flush()
        with pytest.raises(Refused, match="pending"):
            await _opened(Attachment(client, alice, JobAttach(id=1), lambda *_: None, ("stdout",)), is_within=True)
    assert len(asked) > 1


async def test_one_interrupt_ends_a_step_that_waits_for_its_jobs_start():
    cancelled, null = [], os.open(os.devnull, os.O_WRONLY)
    waiting = interaction.Interaction(
        None, Asker("alice"), interaction.Ends(None, null, null), lambda: cancelled.append(True), pty=False
    )
    await waiting.interrupt(2)
    assert not cancelled, "it may have begun"
    waiting.is_within = True
    await waiting.interrupt(2)
    assert cancelled
    await waiting._out.close()
    os.close(null)

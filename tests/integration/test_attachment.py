"""A client's part of a session, over a real broker. The test plays the intake and the agent."""

from __future__ import annotations

import asyncio

import msgspec
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.refusal import respond_error
from rankd.client.asker import Asker
from rankd.client.attachment import Attachment
from rankd.core.errors import Refused
from rankd.wire.codec import decode_strict, encode
from rankd.wire.session import END, OFFSET, STREAM, Again, FromClient, JobAttach, SessionOpened, Step
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
            await session.over.wait()
    assert bytes(shown) == b"hello"

"""A client's part of a session, over a real broker. The test plays the intake and the agent."""

from __future__ import annotations

import asyncio

import msgspec
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.client.asker import Asker
from rankd.client.attachment import Attachment
from rankd.wire.codec import encode
from rankd.wire.session import END, OFFSET, STREAM, Again, FromClient, JobAttach, SessionOpened
from rankd.wire.subject import session_in, session_out


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

"""What crosses the broker in a session, and what does not: a real server with an account for each user and node."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from integration.conftest import Broker
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.identity.site import Role, Site
from rankd.identity.static_configuration import Member, configuration
from rankd.wire.subject import session_grant, session_in, session_out

MEMBERS = [
    Member(Role.USER, "alice"), Member(Role.USER, "bob"), Member(Role.NODE, "n1"), Member(Role.NODE, "n2")
]  # fmt: skip
ID = "s" * 16
IN, OUT = session_in("alice", "n1", ID), session_out("alice", "n1", ID)


@pytest.fixture
async def connect(tmp_path):
    """Returns a connection of a role and name."""
    site = Site(os.urandom(32))
    broker = Broker(tmp_path / "broker", configuration(site, MEMBERS))
    broker.start()
    opened: list[Bus] = []

    async def connected(role: Role, name: str = "") -> Bus:
        bus = Bus(broker.url, name, credentials=lambda: site.static_credentials(role, name, time.time()))
        opened.append(await bus.__aenter__())
        return bus

    yield connected
    for bus in opened:
        await bus.__aexit__(None, None, None)
    broker.kill()


class Heard:
    """What a connection gets on some subjects, in order."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.messages: asyncio.Queue = asyncio.Queue()

    async def on(self, *subjects: str) -> Heard:
        for subject in subjects:
            await self._bus.client.subscribe(subject, cb=self.messages.put)
        await self._bus.client.flush()
        return self

    async def next(self):
        async with asyncio.timeout(PATIENCE_S):
            return await self.messages.get()


async def test_what_crosses_in_a_session(connect):
    alice, bob = await connect(Role.USER, "alice"), await connect(Role.USER, "bob")
    n1, n2 = await connect(Role.NODE, "n1"), await connect(Role.NODE, "n2")
    services = await connect(Role.SERVICES)
    hears = await Heard(alice).on(OUT)
    node = await Heard(n1).on(IN, session_grant("n1"))
    beside = [await Heard(bus).on("rankd.v1.>", "_INBOX.>") for bus in (n2, services)]
    await bob.client.publish(IN, b"forged", reply=OUT)  # stays in bob's account
    for forger in (alice, bob, n2):
        await forger.client.publish(session_grant("n1"), b"forged")
        await forger.client.flush()
    await services.client.publish(session_grant("n1"), b"granted")
    assert (await node.next()).data == b"granted"
    await alice.client.publish(IN, b"hello", reply=OUT)
    got = await node.next()
    assert (got.subject, got.data) == (IN, b"hello")
    assert got.reply.startswith("_R_.")
    for bus, text in ((n2, b"forged"), (bob, b"forged"), (services, b"forged")):
        await bus.client.publish(got.reply, text)
        await bus.client.publish(OUT, text)
        await bus.client.flush()
    for subject in (OUT, session_out("bob", "n1", ID), "_INBOX.alice.1"):
        await n1.client.publish(subject, b"not asked for")
    for number in range(3):
        await n1.client.publish(got.reply, b"%d" % number, headers={"Rankd-Offset": str(number)})
    answers = [await hears.next() for _ in range(3)]
    assert [(one.subject, one.data, one.headers["Rankd-Offset"]) for one in answers] == [
        (OUT, b"%d" % number, str(number)) for number in range(3)
    ]
    await alice.client.publish(session_in("alice", "n2", ID), b"to n2", reply=OUT)
    await alice.client.flush()
    heard = [one.messages.get_nowait().data for one in beside for _ in range(one.messages.qsize())]
    assert b"hello" not in heard
    assert b"granted" in heard  # the services hear their own subject
    assert hears.messages.empty()

"""Tests of a broker: what a connection reaches there, against what it must and must not reach.

The messages are harmless: a stream does not store them, since they expect one that does not exist, and services answer
them with an error.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.identity.expectation import FORGED, Expected, expectations
from rankd.identity.site import Role

NOT_STORED = {"Nats-Expected-Stream": "rankd-check-no-stream"}
"""A header with which JetStream refuses to store a message, wherever it is published."""
STREAMS = "$JS.API.INFO"
ANSWER_TIMEOUT_S = 2.0
PROBE, END = b"rankd auth check", b"rankd auth check: end"


class Found(NamedTuple):
    """What was tried, whether it is permitted, and whether it worked."""

    what: str
    subject: str
    is_permitted: bool
    has_worked: bool

    @property
    def is_right(self) -> bool:
        """Whether it is as it must be."""
        return self.is_permitted == self.has_worked


async def check_access(services: Bus, other: Bus, role: Role, name: str) -> list[Found]:
    """Try everything that this user or node may do, and what it may not.

    Raises:
        Unavailable, OSError: a connection was lost.
    """
    word = f"rankd-check-{secrets.token_hex(4)}"
    expected = expectations(role, name, word)
    asked = [one for one in expected if one.what == "ask"]
    heard = [one for one in expected if one.what == "hear"]
    arrived = await _passed(other, services, asked)
    found = [_found(one, one.subject in arrived) for one in asked]
    passed = await _passed(services, other, heard)
    found += [_found(one, one.subject in passed) for one in heard]
    found += await _forged(other, services, next(one.subject for one in asked if one.is_permitted))
    return [*found, Found("use streams", STREAMS, is_permitted=False, has_worked=await _has_streams(other))]


def _found(one: Expected, has_worked: bool) -> Found:
    return Found(one.what, one.subject, one.is_permitted, has_worked)


async def _passed(sender: Bus, receiver: Bus, expected: Sequence[Expected]) -> set[str]:
    """The subjects on which what one connection publishes reaches the other one."""
    passed = set[str]()
    subjects = list(dict.fromkeys(one.subject for one in expected))
    async with _listening(receiver, subjects, lambda message: passed.add(message.subject)) as ended:
        for subject in subjects:
            await sender.client.publish(subject, PROBE, headers=NOT_STORED)
        await _end(sender, receiver, next(one.subject for one in expected if one.is_permitted), ended)
    return passed


async def _forged(sender: Bus, services: Bus, subject: str) -> list[Found]:
    """Whether a reply subject of another one arrives as it was sent: an answer would then go there."""
    arrived = set[str]()
    async with _listening(services, [subject], lambda message: arrived.add(message.reply)) as ended:
        for reply in FORGED:
            await sender.client.publish(subject, PROBE, reply=reply, headers=NOT_STORED)
        await _end(sender, services, subject, ended)
    return [Found("forge a reply", reply, is_permitted=False, has_worked=reply in arrived) for reply in FORGED]


@asynccontextmanager
async def _listening(bus: Bus, subjects: Sequence[str], note: Callable[[Msg], None]) -> AsyncIterator[asyncio.Event]:
    """Note the probes on these subjects; yields an event that is set when the last message has come."""
    ended = asyncio.Event()

    async def on_message(message: Msg) -> None:
        if message.data == END:
            ended.set()
        elif message.data == PROBE:
            note(message)

    subscriptions = [await bus.client.subscribe(subject, cb=on_message) for subject in subjects]
    await bus.client.flush()
    try:
        yield ended
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()


async def _end(sender: Bus, receiver: Bus, subject: str, ended: asyncio.Event) -> None:
    """Wait until all that was sent before has arrived: messages of a connection keep their order."""
    await sender.client.publish(subject, END, headers=NOT_STORED)
    with suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await ended.wait()
    await receiver.client.flush()  # other subscriptions' messages are handled in tasks of their own


async def _has_streams(bus: Bus) -> bool:
    with suppress(*LOST, ValueError):
        reply = await bus.client.request(STREAMS, b"", timeout=ANSWER_TIMEOUT_S)
        return "error" not in json.loads(reply.data)
    return False

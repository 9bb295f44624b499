"""Health: each service reports its own, after asking what it depends on."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import LOST, STORES_NOTHING, Bus
from rankd.core.errors import RankdError, Unavailable
from rankd.wire.answer import Health
from rankd.wire.encoding import UNREADABLE, encode
from rankd.wire.subject import health_subject

log = logging.getLogger("rankd.bus")


Probe = Callable[[], Awaitable[str]]
"""Asks what a service depends on. Returns a few words on what works; raises if something does not."""


async def answer_health(bus: Bus, service: str, probe: Probe) -> None:
    """Answer health requests for as long as the connection lives."""

    async def answer(message: Msg) -> None:
        if bus.replies.may_answer(message.subject, message.reply):
            await message.respond(encode(await own_health(bus, service, probe)))

    await bus.listen(health_subject(service), answer)


async def own_health(bus: Bus, service: str, probe: Probe) -> Health:
    """The health of this service.

    It is ready if none of the connection's ``loops`` is late, it waits for nothing, and ``probe`` returns.
    """
    try:
        return Health(
            service=service, ready=True, pid=os.getpid(), host=os.uname().nodename, detail=await _well(bus, probe)
        )
    except RankdError as error:
        return Health(
            service=service,
            ready=False,
            pid=os.getpid(),
            host=os.uname().nodename,
            detail=error.message,
            code=error.code,
        )
    except Exception as error:  # health must report every failure
        log.exception("the service is not well")
        return Health(
            service=service,
            ready=False,
            pid=os.getpid(),
            host=os.uname().nodename,
            detail=f"{type(error).__name__}: {error}",
        )


async def _well(bus: Bus, probe: Probe) -> str:
    if (unwell := bus.loops.verdict()) is not None:
        raise Unavailable(STORES_NOTHING if bus.storage.reason() else "not_ready", unwell)
    return await probe()


async def ask_health(bus: Bus, service: str, *, timeout_s: float = 2.0) -> Health:
    """Ask a service for its health.

    Raises:
        Unavailable: ``no_answer``.
    """
    return await bus.request(health_subject(service), b"", Health, timeout_s=timeout_s)


async def ask_all(bus: Bus, service: str, *, wait_s: float = 0.5) -> list[Health]:
    """The health of each instance of a service that answers within ``wait_s`` seconds."""
    found = list[Health]()
    inbox = bus.client.new_inbox()
    answers = await bus.client.subscribe(inbox)
    with suppress(*LOST, TimeoutError, *UNREADABLE):
        await bus.client.publish(health_subject(service), b"", reply=inbox)
        async with asyncio.timeout(wait_s):
            while True:
                found.append(msgspec.json.decode((await answers.next_msg(wait_s)).data, type=Health))
    with suppress(*LOST):
        await answers.unsubscribe()
    return sorted(found, key=lambda one: (one.host, one.pid))

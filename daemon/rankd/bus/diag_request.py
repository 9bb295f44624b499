"""Diagnosis: each service answers with its own figures, from memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import Bus
from rankd.bus.health import Probe, own_health
from rankd.core.errors import Unavailable
from rankd.wire.diag import ForecasterDiag, NotifierDiag, PrioritizerDiag, SchedulerDiag
from rankd.wire.encoding import encode
from rankd.wire.subject import diag_subject

T = TypeVar("T")

TIMEOUT_S = 2.0
RESET = b"reset"


Shown = TypeVar("Shown", SchedulerDiag, PrioritizerDiag, NotifierDiag, ForecasterDiag)


async def answer_diag(
    bus: Bus, service: str, probe: Probe, shown: Callable[[], Shown], reset: Callable[[], None]
) -> None:
    """Answer for as long as the connection lives, with the service's health as :func:`own_health` finds it.

    ``reset`` is called after a request that asks for it.
    """

    async def answer(message: Msg) -> None:
        if not bus.replies.may_answer(message.subject, message.reply):
            return
        health = await own_health(bus, service, probe)
        said = msgspec.structs.replace(shown(), health=health, unreadable=dict(bus.unreadable))
        await message.respond(encode(said))
        if message.data == RESET:
            reset()

    await bus.listen(diag_subject(service), answer)


async def ask_diag(bus: Bus, service: str, kind: type[T], *, reset: bool = False) -> T | None:
    """What a service reports about itself; None if it does not answer. ``reset``: its counts start again."""
    try:
        return await bus.request(diag_subject(service), RESET if reset else b"", kind, timeout_s=TIMEOUT_S)
    except Unavailable:
        return None

"""Diagnosis: each service answers for itself, from memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import Bus
from rankd.core.errors import Unavailable
from rankd.wire.codec import encode
from rankd.wire.subject import diag_subject

T = TypeVar("T")

TIMEOUT_S = 2.0


async def answer_diag(bus: Bus, service: str, shown: Callable[[], msgspec.Struct]) -> None:
    """Answer for as long as the connection lives."""

    async def answer(message: Msg) -> None:
        await message.respond(encode(shown()))

    await bus.client.subscribe(diag_subject(service), cb=answer)


async def ask_diag(bus: Bus, service: str, kind: type[T]) -> T | None:
    """What a service says of itself; None if it does not answer."""
    try:
        return await bus.request(diag_subject(service), b"", kind, timeout_s=TIMEOUT_S)
    except Unavailable:
        return None

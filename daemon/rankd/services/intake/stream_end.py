"""How far a subject of the stream of events is published: its last readable message.

Anyone who may publish there can add unreadable messages after rankd's own, so this looks further back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import Unavailable
from rankd.services.intake.unreadable import unreadable
from rankd.store.record.unreadable import UnreadableMessage
from rankd.wire.codec import UNREADABLE
from rankd.wire.subject import STREAM_EVENTS

T = TypeVar("T")

MOST_LOOKED_BACK = 100
"""The most unreadable messages of a subject that are skipped; each costs the broker about 20 look-ups."""


class End(NamedTuple):
    """The last readable event (None if there is none), and the unreadable messages after it."""

    event: object | None
    passed: Sequence[UnreadableMessage]


async def last_event(bus: Bus, subject: str, kind: type[msgspec.Struct], now: float) -> End:
    """The last event in the last readable message, of type ``kind``, on this subject; ``now`` in UTC seconds.

    Raises:
        Unavailable: ``bus_unavailable``: the stream can't be read.
    """
    passed: list[UnreadableMessage] = []
    try:
        stored: RawStreamMsg | None = await bus.jetstream.get_last_msg(STREAM_EVENTS, subject)
        while stored is not None and len(passed) < MOST_LOOKED_BACK:
            data = stored.data or b""
            try:
                return End(_last_of(data, kind), passed)
            except UNREADABLE as error:
                passed.append(unreadable(subject, stored.seq or 0, data, error, now))
            stored = await _before(bus, subject, stored.seq or 0)
    except NotFoundError:
        return End(None, passed)
    except LOST as error:
        raise Unavailable("bus_unavailable", f"the last message on {subject} can't be read: {error!r}") from error
    return End(None, passed)


def _last_of(data: bytes, kind: type[msgspec.Struct]) -> object | None:
    """The last event; None if the message has only refused submissions, which are published after all events."""
    message = msgspec.json.decode(data, type=kind)
    events: list[object] = getattr(message, "events", [])
    if not events and not getattr(message, "refused", None):
        raise ValueError("the message contains no event")
    return events[-1] if events else None


async def _before(bus: Bus, subject: str, sequence: int) -> RawStreamMsg | None:
    """The message on the subject before this one, by bisection: the broker only finds the next from a number on."""
    found = await bus.jetstream.get_msg(STREAM_EVENTS, 1, subject, next=True)
    if (found.seq or 0) >= sequence:
        return None
    low, high = found.seq or 0, sequence
    while low + 1 < high:
        middle = (low + high) // 2
        candidate = await bus.jetstream.get_msg(STREAM_EVENTS, middle, subject, next=True)
        if (candidate.seq or 0) < sequence:
            found, low = candidate, candidate.seq or 0
        else:
            high = middle
    return found

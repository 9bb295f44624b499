"""Following the events: every message of some subjects once and in order, even if the broker restarts meanwhile.

nats-py's ordered consumer falls silent for good when the broker is restarted. So this module makes its own consumers.
It forgets a consumer after a gap or a silence, and makes another one that starts after the last message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from secrets import token_hex
from typing import TypeVar

import msgspec
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from rankd.bus.connection import LOST, Bus
from rankd.bus.consumer import is_stored
from rankd.core.errors import Unavailable
from rankd.wire.codec import UNREADABLE
from rankd.wire.subject import STREAM_EVENTS

T = TypeVar("T")

log = logging.getLogger("rankd.bus")

HEARTBEAT_S = 1.0
"""A new consumer is made after a silence of more than two of these."""

RETRY_PAUSE_S = 0.2
FORGOTTEN_AFTER_S = 30.0
"""The broker drops a consumer without a listener after this time."""


def _ignore(_message: Msg, _error: Exception) -> None:
    """Do nothing: the default for messages that can't be decoded, which are only counted."""


async def follow(
    bus: Bus,
    subjects: Sequence[str],
    kind: type[T],
    since: float | None = None,
    *,
    passed: Callable[[Msg, Exception], None] = _ignore,
) -> AsyncGenerator[T, None]:
    """Yield messages on these subjects of the stream of events without end, from ``since`` (UTC seconds) or now.

    A message that can't be decoded is passed to ``passed`` and left out.

    Raises:
        Unavailable: ``no_events``: there is no stream to follow.
    """
    try:
        last = 0 if since is not None else (await bus.jetstream.stream_info(STREAM_EVENTS)).state.last_seq
    except LOST as error:
        message = f"the stream of events can't be read ({type(error).__name__} {error}); is rankd running on {bus.url}?"
        raise Unavailable("no_events", message) from error
    while True:
        try:
            async with aclosing(_run(bus, _config(subjects, last, since))) as messages:
                async for came in messages:
                    last = came.metadata.sequence.stream
                    try:
                        decoded = msgspec.json.decode(came.data, type=kind)
                    except UNREADABLE as error:
                        bus.unreadable[STREAM_EVENTS] += 1
                        passed(came, error)
                        continue
                    yield decoded
        except LOST as error:
            log.info("bus: the events can't be followed for now: %s: %s", type(error).__name__, error)
            await asyncio.sleep(RETRY_PAUSE_S)


def _config(subjects: Sequence[str], last: int, since: float | None) -> ConsumerConfig:
    """Begin after message ``last``; if no message has come yet, with the first one at ``since``.

    The name and the single filter let the broker's permissions restrict who may follow which subject.
    """
    from_then = since is not None and last == 0
    return ConsumerConfig(
        name=f"follow-{token_hex(8)}",
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else None,
        ack_policy=AckPolicy.NONE,
        deliver_policy=DeliverPolicy.BY_START_TIME if from_then else DeliverPolicy.BY_START_SEQUENCE,
        opt_start_time=datetime.fromtimestamp(since, UTC) if from_then and since is not None else None,
        opt_start_seq=None if from_then else last + 1,
        idle_heartbeat=HEARTBEAT_S,
        inactive_threshold=FORGOTTEN_AFTER_S,
        mem_storage=True,
    )


async def _run(bus: Bus, config: ConsumerConfig) -> AsyncGenerator[Msg, None]:
    """The messages of one consumer, until it misses one or falls silent."""
    config.deliver_subject = bus.client.new_inbox()
    subscription = await bus.client.subscribe(config.deliver_subject)
    try:
        await bus.jetstream.add_consumer(STREAM_EVENTS, config)
        expected = 1
        while True:
            message = await subscription.next_msg(timeout=2 * HEARTBEAT_S)
            if not is_stored(message):  # a heartbeat
                continue
            if message.metadata.sequence.consumer != expected:
                return
            expected += 1
            yield message
    finally:
        await subscription.unsubscribe()

"""The JetStream streams: their sizes, and how they are created. Every stream can be rebuilt from the database.

The module that reads streams is :mod:`rankd.bus.consumer`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import Unavailable
from rankd.wire.subject import (
    DEAD_LETTER_PATTERN,
    ENQUEUE_PATTERN,
    NOTIFIER,
    PREFIX,
    STREAM_DEAD_LETTERS,
    STREAM_EVENTS,
    STREAM_SUBMISSIONS,
    job_event_pattern,
)

log = logging.getLogger("rankd.bus")

DUPLICATE_WINDOW_S = 600
EVENTS_KEPT_S = 7 * 86400
"""The stream drops its oldest events first. The database still has them."""

LEAST_STREAM_BYTES = 13 * 2**20
"""The least bytes of all streams together. With less, a single large submission would not fit."""
EVENTS_PARTS, ENQUEUED_PARTS, DEAD_LETTERS_PARTS = 8, 4, 1
"""How the streams share the bytes, in thirteenths."""

ENQUEUED_WINDOW_S = 0.1
"""The shortest window that the server allows. The stream would treat equal message ids of two users as one message;
the records distinguish users."""

DEAD_LETTERS_KEPT_S = 30 * 86400
"""The stream is a copy: the records stay in the database until a user retries or drops them."""

NO_ROOM = 10047
"""The server's code for "a stream would reserve more than ``max_file_store``"."""
NAME_IN_USE = 10058
"""The server's code for "a stream of this name exists with another configuration"."""

NOTIFIER_ACK_WAIT_S = 30.0
NOTIFIER_MOST_PENDING = 256
"""Messages that the notifier may have at once, each with at most 500 events."""

COMPLETE = "complete"
"""The description of a stream that was changed after its creation: its checksum was written."""

COMPLAIN_EVERY_S = 60.0


def _streams(total_bytes: int) -> list[StreamConfig]:
    part = total_bytes // (EVENTS_PARTS + ENQUEUED_PARTS + DEAD_LETTERS_PARTS)
    return [
        StreamConfig(
            name=STREAM_SUBMISSIONS,
            subjects=[ENQUEUE_PATTERN],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_bytes=ENQUEUED_PARTS * part,
            duplicate_window=ENQUEUED_WINDOW_S,
        ),
        StreamConfig(
            name=STREAM_DEAD_LETTERS,
            subjects=[DEAD_LETTER_PATTERN],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=DEAD_LETTERS_KEPT_S,
            max_bytes=DEAD_LETTERS_PARTS * part,
            duplicate_window=DUPLICATE_WINDOW_S,
        ),
        StreamConfig(
            name=STREAM_EVENTS,
            subjects=[f"{PREFIX}.event.>"],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=EVENTS_KEPT_S,
            max_bytes=EVENTS_PARTS * part,
            duplicate_window=DUPLICATE_WINDOW_S,
        ),
    ]


async def ensure_streams(bus: Bus) -> None:
    """Make missing streams; several services may do this at the same time. Waits for the broker.

    Raises:
        Unavailable: ``no_space``: the broker has no room for a stream.
    """
    for config in _streams(bus.stream_bytes):
        await until_done(bus, partial(_make_stream, bus, config))
    await until_done(bus, partial(_make_notifiers_consumer, bus))


async def make_streams(bus: Bus) -> None:
    """As :func:`ensure_streams`, but tries once: for a running service that found a stream missing.

    Raises:
        nats.errors.Error, OSError: the broker is away (:data:`~rankd.bus.connection.LOST`).
        Unavailable: ``no_space``: the broker has no room for a stream.
    """
    for config in _streams(bus.stream_bytes):
        await _make_stream(bus, config)
    await _make_notifiers_consumer(bus)


async def _make_notifiers_consumer(bus: Bus) -> None:
    """Make the consumer of the notifier, which may not make one itself: it could name any subject for deliveries.

    It begins at the end of the stream: the notifier reads the records for what came before.
    """
    config = ConsumerConfig(
        durable_name=NOTIFIER,
        deliver_policy=DeliverPolicy.NEW,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=NOTIFIER_ACK_WAIT_S,
        max_ack_pending=NOTIFIER_MOST_PENDING,
        filter_subject=job_event_pattern(),
    )
    await bus.jetstream.add_consumer(STREAM_EVENTS, config)


async def _make_stream(bus: Bus, config: StreamConfig) -> None:
    """Make a stream unless it exists, and complete it unless it is complete.

    A broker that was killed while it made a stream has left a directory without a checksum. It ignores that directory
    at each start, and a second creation does not write the checksum. A change of the stream does. So each stream is
    changed once after its creation, by the first service that finds it unchanged, and its description records this.
    """
    complete = config.evolve(description=COMPLETE)
    try:
        found = await bus.jetstream.stream_info(str(config.name))
    except NotFoundError:
        await _add_stream(bus, config)
        await bus.jetstream.update_stream(complete)
        return
    complete = complete.evolve(max_bytes=found.config.max_bytes)  # its size was set at its creation
    if found.config.description == COMPLETE:
        await bus.jetstream.add_stream(complete)  # refused if its configuration differs
    else:
        await bus.jetstream.update_stream(complete)


async def _add_stream(bus: Bus, config: StreamConfig) -> None:
    try:
        await bus.jetstream.add_stream(config)
    except APIError as error:
        if error.err_code == NAME_IN_USE:
            return  # another service has made and completed it meanwhile
        if error.err_code != NO_ROOM:
            raise
        total = bus.stream_bytes // 2**20
        message = (
            f"the broker at {bus.url} has no room for the stream {config.name}: all streams need {total} MiB together;"
            " raise max_file_store in its configuration, or give the services a smaller --stream-bytes"
        )
        raise Unavailable("no_space", message) from error


async def until_done(bus: Bus, action: Callable[[], Awaitable[object]]) -> None:
    """Repeat until the broker is reached. Logs one line at first, and one a minute."""
    complain_at = 0.0
    while True:
        try:
            await action()
        except LOST as error:
            reason = f"JetStream of the broker at {bus.url} does not answer: {type(error).__name__}: {error}"
            if (now := time.monotonic()) >= complain_at:
                log.log(bus.wait_level, "bus: waiting: %s", reason)
                complain_at = now + COMPLAIN_EVERY_S
            bus.storage.note(reason)
            await asyncio.sleep(0.2)
        else:
            bus.storage.over()
            return

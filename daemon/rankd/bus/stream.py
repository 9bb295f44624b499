"""Making the JetStream streams. :mod:`rankd.bus.wanted_stream` says what they look like.

The module that reads streams is :mod:`rankd.bus.consumer`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from nats.js.api import StreamConfig
from nats.js.errors import APIError, NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.bus.wanted_stream import notifiers_consumer, wanted_streams
from rankd.core.errors import Unavailable
from rankd.wire.subject import STREAM_EVENTS

log = logging.getLogger("rankd.bus")

NO_ROOM = 10047
"""The server's code for "a stream would reserve more than ``max_file_store``"."""
NO_CLUSTER = 10074
"""The server's code for "this server is not in a cluster", which can't store more than one copy."""
NAME_IN_USE = 10058
"""The server's code for "a stream of this name exists with another configuration"."""

COMPLETE = "complete"
"""The description of a stream that was changed after its creation: its checksum was written."""

COMPLAIN_EVERY_S = 60.0


async def ensure_streams(bus: Bus) -> None:
    """Make missing streams; several services may do this at the same time. Waits for the broker.

    Raises:
        Unavailable: ``no_space``: the broker has no room for a stream; ``no_cluster``: it can't store as many copies.
    """
    for config in wanted_streams(bus.stream_bytes, bus.stream_replicas):
        await until_done(bus, partial(_make_stream, bus, config))
    await until_done(bus, partial(_make_notifiers_consumer, bus))


async def make_streams(bus: Bus) -> None:
    """As :func:`ensure_streams`, but tries once: for a running service that found a stream missing.

    Raises:
        nats.errors.Error, OSError: the broker is away (:data:`~rankd.bus.connection.LOST`).
        Unavailable: ``no_space``: the broker has no room for a stream; ``no_cluster``: it can't store as many copies.
    """
    for config in wanted_streams(bus.stream_bytes, bus.stream_replicas):
        await _make_stream(bus, config)
    await _make_notifiers_consumer(bus)


async def _make_notifiers_consumer(bus: Bus) -> None:
    """Make the consumer of the notifier, which may not make one itself: it could name any subject for deliveries.

    It begins at the end of the stream: the notifier reads the records for what came before.
    """
    await bus.jetstream.add_consumer(STREAM_EVENTS, notifiers_consumer())


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
    kept = {"max_bytes": found.config.max_bytes, "num_replicas": found.config.num_replicas}
    complete = complete.evolve(**kept)  # its size and copies were set at its creation, and only people change them
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
        if error.err_code == NO_CLUSTER:
            raise _too_few(bus, config) from error
        if error.err_code != NO_ROOM:
            raise
        total = bus.stream_bytes // 2**20
        message = (
            f"the broker at {bus.url} has no room for the stream {config.name}: all streams need {total} MiB together;"
            " raise max_file_store in its configuration, or give the services a smaller --stream-bytes"
        )
        raise Unavailable("no_space", message) from error


def _too_few(bus: Bus, config: StreamConfig) -> Unavailable:
    message = (
        f"the broker at {bus.url} can't store {config.num_replicas} copies of the stream {config.name}: it is not in a"
        " cluster of as many brokers; set replicas = 1 in [nats], or connect to the brokers of a cluster"
    )
    return Unavailable("no_cluster", message)


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

"""Compares streams and consumers with what they have to look like, and makes streams anew."""

from __future__ import annotations

from contextlib import suppress

from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StreamConfig
from nats.js.errors import NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.bus.stream import make_streams
from rankd.bus.wanted_stream import differences, notifiers_consumer, wanted_streams
from rankd.core.errors import Unavailable
from rankd.wire.subject import STREAM_EVENTS, STREAM_SUBMISSIONS

ANSWER_S = 2.0
CLOSED = "closed"
"""The description of a stream that takes no messages, since it is about to be deleted."""


async def problems_of(bus: Bus, submissions: ConsumerConfig) -> list[str]:
    """Where the streams and consumers that can be asked differ. ``submissions``: the consumer of the intake."""
    found = []
    for config in wanted_streams(bus.stream_bytes, bus.stream_replicas):
        with suppress(*LOST):  # its alarm says so
            info = await _asking(bus).stream_info(str(config.name))
            found += [f"the stream {config.name} has {text}" for text in differences(config, info.config)]
    for stream, consumer in ((STREAM_SUBMISSIONS, submissions), (STREAM_EVENTS, notifiers_consumer())):
        found += await _of_consumer(bus, stream, consumer)
    return found


async def _of_consumer(bus: Bus, stream: str, wanted: ConsumerConfig) -> list[str]:
    name = f"the consumer {wanted.durable_name} of {stream}"
    try:
        info = await _asking(bus).consumer_info(stream, str(wanted.durable_name))
    except NotFoundError:
        return [f"{name} is missing: its service makes it again"]
    except LOST:
        return [f"{name} does not answer"]
    return [f"{name} has {text}" for text in differences(wanted, info.config)]


async def waiting_submissions(bus: Bus) -> int | None:
    """How many enqueued submissions no intake has taken yet; None if the stream can't be asked."""
    try:
        return (await _asking(bus).stream_info(STREAM_SUBMISSIONS)).state.messages
    except NotFoundError:
        return 0
    except LOST:
        return None


async def close_submissions(bus: Bus) -> None:
    """Let the stream of submissions refuse new ones: publishers get an error, and no acknowledgement.

    :func:`rankd.bus.stream.ensure_streams` opens it again. A stream that can't be asked acknowledges nothing anyway.
    """
    await _change_submissions(bus, max_msg_size=1, description=CLOSED)


async def open_submissions(bus: Bus) -> None:
    """Let the stream of submissions take new ones again."""
    with suppress(*LOST, Unavailable):  # it is opened again at the next start
        await make_streams(bus)


async def _change_submissions(bus: Bus, *, max_msg_size: int, description: str) -> None:
    with suppress(*LOST):
        found = (await _asking(bus).stream_info(STREAM_SUBMISSIONS)).config
        await _asking(bus).update_stream(found.evolve(max_msg_size=max_msg_size, description=description))


async def make_anew(bus: Bus, *, submissions: bool) -> None:
    """Delete the streams with all their messages, and make them again; that of submissions only if told so.

    Raises:
        Unavailable: ``bus_unavailable``: the brokers do not answer; ``no_space``, ``no_cluster``.
    """
    try:
        for config in wanted_streams(bus.stream_bytes, bus.stream_replicas):
            if submissions or config.name != STREAM_SUBMISSIONS:
                await _delete(bus, config)
        await make_streams(bus)
    except LOST as error:
        message = f"the streams can't be made anew: {type(error).__name__} {error}; try again when the brokers answer"
        raise Unavailable("bus_unavailable", message) from error


async def _delete(bus: Bus, config: StreamConfig) -> None:
    with suppress(NotFoundError):
        await bus.jetstream.delete_stream(str(config.name))


def _asking(bus: Bus) -> JetStreamContext:
    return bus.client.jetstream(timeout=ANSWER_S)

"""Following the events: every message of some subjects once and in order, whatever becomes of the broker meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from nats.js.api import ConsumerConfig, DeliverPolicy

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import Unavailable
from rankd.wire.subject import STREAM_EVENTS

T = TypeVar("T")

HEARTBEAT_S = 2.0
"""After two of these without a sign of the broker, the consumer is made anew behind what came last."""


async def follow(
    bus: Bus, subjects: Sequence[str], kind: type[T], since: float | None = None
) -> AsyncGenerator[T, None]:
    """Messages on these subjects of the stream of events, for ever; from ``since`` (UTC seconds), or from now on.

    Raises:
        Unavailable: ``no_events``: there is no stream to follow.
    """
    try:
        first = (await bus.jetstream.stream_info(STREAM_EVENTS)).state.last_seq + 1
        config = ConsumerConfig(
            filter_subjects=list(subjects),
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=first,
            idle_heartbeat=HEARTBEAT_S,
        )
        if since is not None:
            first = 1
            config.deliver_policy = DeliverPolicy.BY_START_TIME
            config.opt_start_seq = None
            config.opt_start_time = datetime.fromtimestamp(since, UTC)
        subscription = await bus.jetstream.subscribe("", stream=STREAM_EVENTS, config=config, ordered_consumer=True)
    except LOST as error:
        message = f"the stream of events can't be read ({type(error).__name__} {error}); is rankd running on {bus.url}?"
        raise Unavailable("no_events", message) from error
    last = first - 1
    while True:
        try:
            came = await subscription.next_msg(timeout=HEARTBEAT_S)
        except TimeoutError:
            continue
        place = came.metadata.sequence.stream
        if place > last and (since is None or came.metadata.timestamp.timestamp() >= since):
            last = place  # a consumer that was made anew may begin before
            yield msgspec.json.decode(came.data, type=kind)

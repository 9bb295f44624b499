"""The JetStream streams, and pull consumers that neither stall nor die with the broker.

nats-py's ``fetch(n > 1)`` stalls after an empty fetch (its issue 986), hence an own loop over
``$JS.API.CONSUMER.MSG.NEXT``. Every stream can be rebuilt from the database.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError

from rankd.bus.connection import LOST, Bus
from rankd.wire.subject import (
    DEAD_LETTER_PATTERN,
    ENQUEUE_PATTERN,
    PREFIX,
    STREAM_ALLOCATIONS,
    STREAM_DEAD_LETTERS,
    STREAM_EVENTS,
    STREAM_REPORTS,
    STREAM_SUBMISSIONS,
    encode_name,
    node_pattern,
)

log = logging.getLogger("rankd.bus")

DUPLICATE_WINDOW_S = 600
EVENTS_KEPT_S = 7 * 86400
EVENTS_KEPT_BYTES = 512 * 2**20
"""The oldest go first: who needs older ones reads them in the database."""

ENQUEUED_BYTES = 256 * 2**20
"""A full queue refuses what comes, so that its sender knows; it never drops what it has acknowledged."""

ENQUEUED_WINDOW_S = 0.1
"""The least there is: the stream would take two users' equal message ids for one. The records know users apart."""

DEAD_LETTERS_KEPT_S = 30 * 86400
DEAD_LETTERS_KEPT_BYTES = 64 * 2**20
"""The stream is a copy: the records stay in the database until somebody retries or drops them."""

NOT_UNIQUE = 10100
"""The server's code where a work queue's subject has a consumer already."""

EXPIRES_S = 5.0
ACK_WAIT_S = 5.0
"""What was lost on its way comes again after this; takers are idempotent, so coming twice does no harm."""


_HEADERS_BYTES = 64 * 2**10


def _work_queue(name: str, subject: str) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=[subject],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        duplicate_window=DUPLICATE_WINDOW_S,
    )


def _streams() -> list[StreamConfig]:
    return [
        StreamConfig(
            name=STREAM_SUBMISSIONS,
            subjects=[ENQUEUE_PATTERN],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_bytes=ENQUEUED_BYTES,
            duplicate_window=ENQUEUED_WINDOW_S,
        ),
        StreamConfig(
            name=STREAM_DEAD_LETTERS,
            subjects=[DEAD_LETTER_PATTERN],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=DEAD_LETTERS_KEPT_S,
            max_bytes=DEAD_LETTERS_KEPT_BYTES,
            duplicate_window=DUPLICATE_WINDOW_S,
        ),
        _work_queue(STREAM_ALLOCATIONS, node_pattern("allocation")),
        _work_queue(STREAM_REPORTS, node_pattern("report")),
        StreamConfig(
            name=STREAM_EVENTS,
            subjects=[f"{PREFIX}.event.>"],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=EVENTS_KEPT_S,
            max_bytes=EVENTS_KEPT_BYTES,
            duplicate_window=DUPLICATE_WINDOW_S,
        ),
    ]


async def ensure_streams(bus: Bus) -> None:
    """Make the streams that are missing; several services may do so at once."""
    for config in _streams():
        await _until_done(partial(bus.jetstream.add_stream, config))


async def _until_done(action: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await action()
        except LOST as error:
            log.info("bus: waiting for JetStream: %s: %s", type(error).__name__, error)
            await asyncio.sleep(0.2)
        else:
            return


class PullConsumer:
    """A durable consumer that hands out messages in batches, as they come.

    One request brings at most ``batch`` messages of together about ``max_bytes``, if that is given.
    """

    def __init__(
        self,
        bus: Bus,
        stream: str,
        durable: str,
        subjects: Sequence[str],
        batch: int = 256,
        max_bytes: int | None = None,
    ) -> None:
        self._bus = bus
        self._stream = stream
        self._durable = encode_name(durable)
        self._subjects = list(subjects)
        self._batch = batch
        self._max_bytes = max_bytes

    async def ensure(self) -> None:
        """Make the consumer if it is missing."""
        config = ConsumerConfig(
            durable_name=self._durable,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=-1,
            filter_subjects=self._subjects,
        )
        await _until_done(partial(self._add, config))

    async def _add(self, config: ConsumerConfig) -> None:
        try:
            await self._bus.jetstream.add_consumer(self._stream, config)
        except BadRequestError as error:
            if error.err_code != NOT_UNIQUE:
                raise
            await self._take_over()
            await self._bus.jetstream.add_consumer(self._stream, config)

    async def _take_over(self) -> None:
        """Drop consumers of other names that hold subjects of ours, as an agent that was renamed leaves one."""
        ours, offset = set(self._subjects), 0
        while found := await self._bus.jetstream.consumers_info(self._stream, offset):
            offset += len(found)
            for info in found:
                theirs = {*(info.config.filter_subjects or ()), info.config.filter_subject}
                if info.name != self._durable and not ours.isdisjoint(theirs):
                    log.warning("bus: consumer %s of %s is taken over by %s", info.name, self._stream, self._durable)
                    await self._bus.jetstream.delete_consumer(self._stream, info.name)
                    offset -= 1

    async def _forget(self) -> None:
        """Drop what a predecessor was handed and did not acknowledge: it comes again at once, in order.

        The streams are work queues: what was acknowledged has left them.
        """
        try:
            await self._bus.jetstream.delete_consumer(self._stream, self._durable)
        except LOST as error:
            log.debug("bus: no consumer %s to drop: %s", self._durable, error)

    def _request(self) -> bytes:
        wanted = {"batch": self._batch, "expires": int(EXPIRES_S * 1e9)}
        if self._max_bytes is not None:  # less than one message would be refused for ever
            wanted["max_bytes"] = max(self._max_bytes, self._bus.client.max_payload + _HEADERS_BYTES)
        return json.dumps(wanted).encode()

    async def batches(self) -> AsyncGenerator[list[Msg], None]:
        """Batches of at least one message, for ever; each message must be acknowledged by its taker.

        A request that the broker forgot in a restart is sent again after the reconnect; after a silence longer
        than a request lives the consumer is made sure of again. What was not acknowledged comes again.
        """
        inbox = self._bus.client.new_inbox()
        subscription = await self._bus.client.subscribe(inbox)
        await self._forget()
        await self.ensure()
        request = self._request()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"

        async def ask_again() -> None:
            await self._bus.client.publish(inbox, b"", headers={"Status": "reconnected"})

        self._bus.after_reconnect.append(ask_again)
        try:
            while True:
                await self._bus.client.publish(subject, request, reply=inbox)
                wanted = self._batch
                while wanted > 0:
                    messages, over = await _drain(subscription, EXPIRES_S + 2)
                    if messages:
                        wanted -= len(messages)
                        yield messages
                    if over is None:
                        await self.ensure()
                    if over is not False:
                        break
        finally:
            self._bus.after_reconnect.remove(ask_again)
            await subscription.unsubscribe()


async def _drain(subscription: Subscription, timeout_s: float) -> tuple[list[Msg], bool | None]:
    """What has arrived: messages, and whether the request is over (None: silence)."""
    try:
        first = await subscription.next_msg(timeout=timeout_s)
    except LOST:
        return [], None
    arrived = [first]
    while subscription.pending_msgs and len(arrived) < 10_000:
        arrived.append(await subscription.next_msg(timeout=1))
    messages = [message for message in arrived if not _is_status(message)]
    return messages, len(messages) < len(arrived)


def _is_status(message: Msg) -> bool:
    return not is_stored(message)


def is_stored(message: Msg) -> bool:
    """Whether it comes from a stream; else it is the broker's word about the request or the consumer.

    Its reply subject says so. Its headers and an empty payload do not: whoever published it chose those.
    """
    return message.reply.startswith("$JS.ACK.")

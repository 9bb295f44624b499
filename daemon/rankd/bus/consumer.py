"""Pull consumers that survive stalls and restarts of the broker.

nats-py's ``fetch(n > 1)`` stalls after an empty fetch (its issue 986). So this module has its own loop over
``$JS.API.CONSUMER.MSG.NEXT``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from enum import Enum, auto

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.errors import BadRequestError, NotFoundError

from rankd.bus.connection import LOST, Bus
from rankd.bus.stream import COMPLAIN_EVERY_S, make_streams, until_done
from rankd.bus.wanted_stream import pulled_consumer
from rankd.wire.subject import encode_name

log = logging.getLogger("rankd.bus")

NOT_UNIQUE = 10100
"""The server's code for "a work queue's subject already has a consumer"."""
NO_STREAM = 10059
"""The server's code for "the stream does not exist"."""

EXPIRES_S = 5.0
LIVE_END = "Nats-Pending-Messages"
"""A live consumer ends a request with a status that has this header. Any other status does not come
from a live consumer."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
TAKING_BOUND_S = 60.0
"""The broker answers a request within `EXPIRES_S`; the rest is for handling the messages."""

_HEADERS_BYTES = 64 * 2**10


class PullConsumer:
    """A durable consumer that yields messages in batches, as they arrive.

    One request gets at most ``batch`` messages, and about ``max_bytes`` together if that is given.
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
        """Make the consumer, and its stream, if they are missing. Waits for the broker."""
        await until_done(self._bus, self._ensure)

    async def _ensure(self) -> None:
        try:
            await self._bus.jetstream.consumer_info(self._stream, self._durable)
        except NotFoundError as error:
            if error.err_code == NO_STREAM:
                log.warning("bus: the stream %s is missing; it is made again", self._stream)
                await make_streams(self._bus)
            await self._make()

    async def _renew(self) -> None:
        """Make the consumer again: see :meth:`_make`."""
        await until_done(self._bus, self._make)

    async def _make(self) -> None:
        """Make the consumer in a new directory: an existing one may lack its checksum (see `_make_stream`).

        Messages that a predecessor received but did not acknowledge are delivered again at once, in order. This works
        because the streams are work queues, and acknowledged messages have left them.
        """
        await self._add()
        await self._bus.jetstream.delete_consumer(self._stream, self._durable)
        await self._add()

    async def _add(self) -> None:
        config = pulled_consumer(self._durable, self._subjects)
        try:
            await self._bus.jetstream.add_consumer(self._stream, config)
        except BadRequestError as error:
            if error.err_code != NOT_UNIQUE:
                raise
            await self._take_over()
            await self._bus.jetstream.add_consumer(self._stream, config)

    async def _take_over(self) -> None:
        """Delete consumers of other names that hold our subjects; for example, a renamed agent leaves one."""
        ours, offset = set(self._subjects), 0
        while found := await self._bus.jetstream.consumers_info(self._stream, offset):
            offset += len(found)
            for info in found:
                theirs = {*(info.config.filter_subjects or ()), info.config.filter_subject}
                if info.name != self._durable and not ours.isdisjoint(theirs):
                    log.warning("bus: consumer %s of %s is taken over by %s", info.name, self._stream, self._durable)
                    await self._bus.jetstream.delete_consumer(self._stream, info.name)
                    offset -= 1

    def _wanted(self) -> bytes:
        wanted = {"batch": self._batch, "expires": int(EXPIRES_S * 1e9)}
        if self._max_bytes is not None:  # less than one message would be refused every time
            wanted["max_bytes"] = max(self._max_bytes, self._bus.client.max_payload + _HEADERS_BYTES)
        return json.dumps(wanted).encode()

    async def batches(self) -> AsyncGenerator[list[Msg], None]:
        """Yield batches of at least one message without end. The caller must acknowledge each message.

        If a live consumer does not end the request itself (no such consumer, a reconnect, silence), this pauses, and
        then makes sure that the consumer exists. Unacknowledged messages are delivered again.
        """
        inbox = self._bus.client.new_inbox()
        subscription = await self._bus.client.subscribe(inbox)
        await self.ensure()
        await self._renew()
        trouble = _Trouble(f"{self._durable} of {self._stream}")

        async def ask_again() -> None:
            await self._bus.client.publish(inbox, b"", headers={"Status": RECONNECTED})

        self._bus.after_reconnect.append(ask_again)
        taking = self._bus.loops.add(f"consumer {self._durable} of {self._stream}", TAKING_BOUND_S)
        try:
            while True:
                end = None
                async for messages, over in self._request(inbox, subscription):
                    end = over
                    if messages:
                        trouble.over()
                        yield messages
                        taking.beat()
                if end is _End.LIVE:
                    trouble.over()
                    taking.beat()
                elif end is not None:
                    await trouble.pause(end)
                    await self.ensure()
                    if end is _End.GONE:
                        await self._renew()
        finally:
            self._bus.after_reconnect.remove(ask_again)
            self._bus.loops.drop(taking.name)
            await subscription.unsubscribe()

    async def _request(
        self, inbox: str, subscription: Subscription
    ) -> AsyncGenerator[tuple[list[Msg], _End | None], None]:
        """Ask for one batch. Yields messages with the end of the request; None until it ends or all have arrived."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        await self._bus.client.publish(subject, self._wanted(), reply=inbox)
        wanted = self._batch
        while wanted > 0:
            messages, end = await _drain(subscription, EXPIRES_S + 2)
            wanted -= len(messages)
            yield messages, end
            if end is not None:
                return


class GivenConsumer(PullConsumer):
    """A consumer that other services make, since this connection may not: it waits until there is one.

    Another service makes a missing one: at its start, or when it finds a stream missing.
    """

    async def _ensure(self) -> None:
        await self._bus.jetstream.consumer_info(self._stream, self._durable)

    async def _renew(self) -> None:
        """Do nothing: unlike a work queue's, this consumer has a place in the stream, which it would lose."""


RECONNECTED = "reconnected"


class _End(Enum):
    """How a request for messages ended."""

    LIVE = auto()
    """The consumer ended it."""
    GONE = auto()
    """No server serves this consumer."""
    UNKNOWN = auto()
    """A reconnect or silence."""


class _Trouble:
    """The pauses while a consumer can't be reached. Logs it at first, and once a minute."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._pause_s = FIRST_PAUSE_S
        self._complain_at = 0.0

    def over(self) -> None:
        """Reset the pause: the consumer works."""
        self._pause_s = FIRST_PAUSE_S

    async def pause(self, end: _End) -> None:
        """Wait, each time twice as long as before, up to :data:`LONGEST_PAUSE_S`."""
        now = time.monotonic()
        if end is _End.GONE and now >= self._complain_at:
            log.warning("bus: the consumer %s is gone; it is made again", self._what)
            self._complain_at = now + COMPLAIN_EVERY_S
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)


async def _drain(subscription: Subscription, timeout_s: float) -> tuple[list[Msg], _End | None]:
    """The messages that have arrived, and how the request ended; None if it has not."""
    try:
        first = await subscription.next_msg(timeout=timeout_s)
    except LOST:
        return [], _End.UNKNOWN
    arrived = [first]
    while subscription.pending_msgs and len(arrived) < 10_000:
        arrived.append(await subscription.next_msg(timeout=1))
    ends = [_end_of(message) for message in arrived if _is_status(message)]
    messages = [message for message in arrived if not _is_status(message)]
    return messages, ends[-1] if ends else None


def _is_status(message: Msg) -> bool:
    """Whether it is the broker's message about the request or the consumer; otherwise it comes from a stream.

    Only its reply subject shows this. Its publisher chooses the headers and may send an empty payload.
    """
    return not message.reply.startswith("$JS.ACK.")


def _end_of(status: Msg) -> _End:
    headers = status.headers or {}
    if LIVE_END in headers:
        return _End.LIVE
    return _End.UNKNOWN if headers.get("Status") == RECONNECTED else _End.GONE

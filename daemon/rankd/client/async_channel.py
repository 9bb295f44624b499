"""Requests side by side, in an event loop: over a login socket or a broker."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rankd.bus.login import AGAIN_S, PART_BYTES, Answer, answer_in, asking, refusal_of_socket, short_path
from rankd.client.channel import AGAIN, GATEWAY_PAUSE_S, decoded
from rankd.client.error import Closed
from rankd.client.session import CONNECT_TIMEOUT_S
from rankd.client.step import Ask, Listen, Pause, Plan, Room, Step, next_step
from rankd.core.errors import RankdError, Unavailable
from rankd.wire.login_size import MOST_ANSWER_BYTES, MOST_REQUEST_BYTES

T = TypeVar("T")

GATHER_S = 0.05
"""News within this time are one hint, so that rankd is not asked more than 20 times a second."""


class AsyncChannel(Protocol):
    """Sends requests of one user. ``heard``: how many news there were so far."""

    heard: int

    async def largest(self) -> int:
        """The bytes that a request may have."""

    async def request(self, ask: Ask) -> Any:  # noqa: ANN401 - the request says which kind
        """Send a request and decode the answer.

        Raises:
            Refused, Unavailable: the error that the other side answered; there is no answer, or no other side.
        """

    async def listen(self) -> None:
        """Begin to listen for news, if there are any on this way."""

    async def pause(self, pause: Pause, heard: int) -> None:
        """Wait. ``heard``: the number of news before the last request was sent."""

    async def close(self) -> None:
        """End what is open. Requests that wait fail."""


async def carry_out(plan: Plan[T], channel: AsyncChannel) -> T:
    """The result of an operation.

    Raises:
        RankdError: as the operation says.
    """
    result: object = None
    error: RankdError | None = None
    heard = channel.heard
    while True:
        try:
            step = next_step(plan, result, error)
        except StopIteration as done:
            value: T = done.value
            return value
        if isinstance(step, Ask):
            heard = channel.heard
        try:
            result, error = await _done(step, channel, heard), None
        except RankdError as raised:
            result, error = None, raised


async def _done(step: Step, channel: AsyncChannel, heard: int) -> object:
    """The result of a step. A cancellation is never lost.

    Python 3.11's ``asyncio.wait_for``, which nats-py uses, loses one that comes together with the answer.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    result = await _result(step, channel, heard)
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def _result(step: Step, channel: AsyncChannel, heard: int) -> object:
    match step:
        case Ask():
            return await channel.request(step)
        case Pause():
            await channel.pause(step, heard)
        case Listen():
            await channel.listen()
        case Room():
            return await channel.largest()
    return None


class AsyncSocketChannel:
    """Asks at a login socket: each request is a connection of its own. There are no news on this way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closed = asyncio.Event()
        self.heard = 0

    async def largest(self) -> int:
        """See :class:`AsyncChannel`."""
        return MOST_REQUEST_BYTES

    async def listen(self) -> None:
        """See :class:`AsyncChannel`."""

    async def pause(self, pause: Pause, heard: int) -> None:  # noqa: ARG002 - there are no news here
        """See :class:`AsyncChannel`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.polled_s):
                await self._closed.wait()

    async def close(self) -> None:
        """See :class:`AsyncChannel`."""
        self._closed.set()

    async def request(self, ask: Ask) -> Any:  # noqa: ANN401 - the request says which kind
        """See :class:`AsyncChannel`. A gateway that does not listen, or is busy, is asked again for a moment."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(CONNECT_TIMEOUT_S, ask.timeout_s)
        while True:
            if self._closed.is_set():
                raise Closed
            try:
                answer = await self._asked(ask)
            except Unavailable as error:
                if error.code not in AGAIN or loop.time() >= until:
                    raise
                await asyncio.sleep(GATEWAY_PAUSE_S)
            else:
                return decoded(ask.verb, answer.payload, answer.status, ask.kind)

    async def _asked(self, ask: Ask) -> Answer:
        try:
            async with asyncio.timeout(ask.timeout_s):
                line, rest = await _exchange(self._path, asking(ask.verb, ask.payload) + ask.payload)
        except OSError as error:  # a timeout is one
            raise refusal_of_socket(self._path, ask.verb, ask.timeout_s, error) from None
        return answer_in(self._path, line, rest)


async def _exchange(path: Path, message: bytes) -> tuple[bytes, bytes]:
    """Send a message; the line of the answer, and the bytes behind it.

    Raises:
        OSError: nobody listens there.
    """
    reader, writer = await asyncio.open_unix_connection(sock=await _connected(path), limit=PART_BYTES)
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has refused the first line, and says why
            writer.write(message)
            await writer.drain()
        return await _received(reader)
    finally:
        writer.close()


async def _received(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    parts, size = list[bytes](), 0
    try:
        while size <= MOST_ANSWER_BYTES and (part := await reader.read(PART_BYTES)):
            parts.append(part)
            size += len(part)
    except ConnectionResetError:  # a gateway that refuses a request before it has read all of it
        if not any(b"\n" in part for part in parts):
            raise
    line, _, rest = b"".join(parts).partition(b"\n")
    return line, rest


async def _connected(path: Path) -> socket.socket:
    """A connection; tried again while the gateway's queue is full, since the kernel does not wait for room in it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        with short_path(path) as short:
            while True:
                try:
                    connection.connect(short)
                except BlockingIOError:
                    await asyncio.sleep(AGAIN_S)
                else:
                    return connection
    except BaseException:
        connection.close()
        raise

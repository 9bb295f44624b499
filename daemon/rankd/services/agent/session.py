"""One session at its agent: sends a job's file to a client as fast as the client consumes it.

The client says how far it has consumed. The agent sends at most a window beyond that, and reads the file only then. So
a slow client holds up nothing but itself. A client of which nothing is heard is forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec
from nats.aio.msg import Msg

from rankd.core.errors import RankdError, Unavailable
from rankd.services.agent.log_file import FileOf, LogFile, LogFiles
from rankd.services.agent.user_reader import ReaderLost
from rankd.wire.answer import ErrorBody
from rankd.wire.codec import UNREADABLE, encode
from rankd.wire.session import (
    END,
    FORGET_S,
    MESSAGE_BYTES,
    OFFSET,
    SIZE,
    STATE,
    STREAM,
    WINDOW_BYTES,
    Again,
    Alive,
    Consumed,
    FromClient,
    Grant,
    Leave,
    LogWish,
)

ENDED = "ended"
LOOK_S = 5.0
STATUS_HEADER, TEXT_HEADER = "Nats-Service-Error-Code", "Nats-Service-Error"
"""As in :mod:`rankd.bus.refusal`."""
LONGEST_TEXT = 500
MARK_BYTES = 64
"""So many bytes before the next ones are read again each time: the job may have emptied its file."""

_from_client = msgspec.json.Decoder(FromClient)

Send = Callable[[str, bytes, Mapping[str, str]], Awaitable[bool]]
"""Publishes on a subject. Returns whether the message was given to the broker; waits while others' are not through."""


class Session(Protocol):
    """What the agent needs of any session."""

    def renew(self, grant: Grant) -> None:
        """The intake has granted it again."""

    async def on_message(self, message: Msg) -> None:
        """The client has sent a message."""

    async def run(self) -> None:
        """Serve until the session has ended."""

    async def close(self) -> None:
        """Give up what it holds."""


class Lifetime:
    """Until when a session lives: by its grant, and by what is heard of its client. Times are those of the loop."""

    def __init__(self, grant: Grant, now_s: float) -> None:
        self._granted_until_s = self._heard_s = 0.0
        self.renew(grant, now_s)

    def renew(self, grant: Grant, now_s: float) -> None:
        """The grant lasts from now on."""
        self._granted_until_s = now_s + max(0.0, grant.expires_at - grant.issued_at)
        self._heard_s = now_s

    def hear(self, now_s: float) -> None:
        """The client has sent something."""
        self._heard_s = now_s

    def excuse(self, now_s: float) -> None:
        """The client can't be heard, whatever it sends: count from now on."""
        self._heard_s = now_s
        self._granted_until_s = max(self._granted_until_s, now_s + FORGET_S)

    def is_over(self, now_s: float) -> bool:
        """Whether the session is to be forgotten."""
        return now_s >= min(self._granted_until_s, self._heard_s + FORGET_S)


class LogSession:
    """Sends one file. :meth:`open` comes first."""

    def __init__(
        self, grant: Grant, wish: LogWish, files: LogFiles, send: Send, accepts: Callable[[str], bool]
    ) -> None:
        self._grant = grant
        self._wish = wish
        self._files = files
        self._file = FileOf(grant.owner, wish.path, grant.allocation, grant.started_at, wish.appends)
        self._log: LogFile | None = None
        self._send = send
        self._accepts = accepts
        self._life = Lifetime(grant, asyncio.get_running_loop().time())
        self._reply: str | None = None
        self._sent = self._consumed = wish.offset
        self._until: int | None = None
        self._size = 0
        self._mark = b""
        """The last bytes that were sent, just before the next ones."""
        self._wake = asyncio.Event()
        self._owes_status = False
        self._is_over = self._has_left = False

    async def open(self) -> None:
        """Open the file, and find the first byte.

        Raises:
            RankdError: it can't be read.
        """
        self._log = log = self._files.use(self._file)
        try:
            self._size = await log.size()
            wish = self._wish
            if wish.tail_bytes is not None:
                self._sent = max(0, self._size - wish.tail_bytes)
            elif wish.tail_lines is not None:
                self._sent = await log.tail(wish.tail_lines)
        except ReaderLost:
            raise Unavailable("log_unreadable", f"{self._wish.path} can't be read now: the file system hangs") from None
        self._consumed = self._sent
        if self._wish.limit is not None:
            self._until = self._sent + self._wish.limit
        if self._wish.follow:
            log.watch(self._wake)

    def renew(self, grant: Grant) -> None:
        """See :class:`Session`."""
        self._life.renew(grant, asyncio.get_running_loop().time())
        self._grant = grant
        wish = grant.wish
        if isinstance(wish, LogWish) and wish.offset >= self._consumed:
            self._consume(wish.offset)
            if wish.again:
                self._again(wish.offset)
        self._wake.set()

    async def on_message(self, message: Msg) -> None:
        """See :class:`Session`."""
        self._life.hear(asyncio.get_running_loop().time())
        try:
            said = _from_client.decode(message.data)
        except UNREADABLE:
            return
        match said:
            case Alive() if self._accepts(message.reply):
                self._reply = message.reply
                self._owes_status = True
            case Consumed(offset=offset):
                self._consume(offset)
            case Again(offset=offset):
                self._consume(offset)
                self._again(offset)
            case Leave():
                self._has_left = True
            case _:
                return
        self._wake.set()

    def _consume(self, offset: int) -> None:
        self._consumed = max(self._consumed, min(offset, self._sent))

    def _again(self, offset: int) -> None:
        self._sent = min(self._sent, max(offset, self._consumed))
        self._mark = b""
        self._is_over = False

    async def run(self) -> None:
        """See :class:`Session`."""
        while not self._has_left and not self._life.is_over(asyncio.get_running_loop().time()):
            self._wake.clear()
            try:
                if not await self.run_once():
                    await self._rest()
            except ReaderLost:
                await self._fail(
                    Unavailable("log_unreadable", f"{self._wish.path} can't be read: the file system hangs")
                )
                return
            except RankdError as error:
                await self._fail(error)
                return

    async def run_once(self) -> bool:
        """Send what may be sent now; returns whether that was anything."""
        if self._reply is None or self._log is None:
            return False
        if self._owes_status:
            self._owes_status = not await self._put(b"", {})
            return not self._owes_status
        most = min(MESSAGE_BYTES, self._consumed + WINDOW_BYTES - self._sent)
        if self._until is not None:
            most = min(most, self._until - self._sent)
        if self._is_over or (most <= 0 and self._sent != self._until):
            return False
        return await self._send_next(self._log, most)

    async def _send_next(self, log: LogFile, most: int) -> bool:
        """Send the next bytes, or the end; returns whether anything was sent.

        Raises:
            Refused: ``log_emptied``.
        """
        was_running, begin = log.is_running(), self._sent
        if most > 0:
            part = await log.read(begin, most, self._mark)
            if self._sent != begin:  # the client has asked for earlier bytes meanwhile
                return True
            self._size = part.size
            if part.data:
                return await self._put_data(part.data)
        if self._sent == self._until or not (self._wish.follow and was_running):
            state = self._grant.state if was_running else ENDED
            self._is_over = await self._put(b"", {END: "true", STATE: state})
            return self._is_over
        return False

    async def _put_data(self, data: bytes) -> bool:
        before = self._sent
        if not await self._put(data, {}):
            return False
        if self._sent == before:  # else it was set back meanwhile
            self._sent += len(data)
            self._mark = (self._mark + data)[-MARK_BYTES:]
        return True

    async def _put(self, data: bytes, more: Mapping[str, str]) -> bool:
        headers = {STREAM: self._wish.stream, OFFSET: str(self._sent), SIZE: str(self._size), **more}
        return await self._send(self._reply or "", data, headers)

    async def _rest(self) -> None:
        """Wait for the client, or for the file to grow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()

    async def _fail(self, error: RankdError) -> None:
        if self._reply is not None:
            body = ErrorBody(code=error.code, message=error.message, field=error.field)
            text = " ".join(error.message.split())[:LONGEST_TEXT]
            await self._send(self._reply, encode(body), {STATUS_HEADER: str(error.status), TEXT_HEADER: text})

    async def close(self) -> None:
        """See :class:`Session`."""
        if self._log is not None:
            self._log.unwatch(self._wake)
            self._log = None
            await self._files.leave(self._file)

"""Reading what a job writes, over the bus, from any host: each byte once and in order, whatever ends in between.

The agent numbers the bytes of the file, and sends at most a window beyond what is consumed here. What was cut off on
the way shows as a gap in the numbers, and is asked for again. Requests are repeated while rankd, the broker or the
agent is away.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Protocol

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from rankd.bus.connection import LOST, Bus
from rankd.bus.refusal import raise_if_refused
from rankd.core.errors import Unavailable
from rankd.wire.encoding import encode
from rankd.wire.session import (
    CONSUMED_BYTES,
    END,
    OFFSET,
    RENEW_S,
    SIZE,
    Again,
    Alive,
    Consumed,
    JobLog,
    Leave,
    SessionOpened,
    log_emptied,
)
from rankd.wire.subject import session_in, session_out

ASK_TIMEOUT_S = 10.0
AGAIN_S = 0.5
"""Between attempts to open a session while something is away."""
OWED_S = 2.0
UNHEARD_S = 1.0
"""An agent that has not answered for this long is asked again: the broker may have lost the message."""
MOST_WAITING, MOST_WAITING_BYTES = 64, 8 * 2**20
"""More than a window. An agent that keeps to it never sends so much."""
LOST_AFTER = 3
"""After so many questions without an answer, the session is opened again: the agent may have been started again."""


class Reader(Protocol):
    """Who reads: the user, and on which subject this user's requests are sent."""

    @property
    def user(self) -> str:
        """The user's name."""

    def subject(self, verb: str) -> str:
        """The subject of requests for ``verb``."""


class LogStream:
    """One stream of one job on one node. ``patience_s``: how long to try while something is away; None: for ever."""

    def __init__(self, bus: Bus, who: Reader, wanted: JobLog, *, patience_s: float | None = 60.0) -> None:
        self.opened: SessionOpened | None = None
        self._bus = bus
        self._who = who
        self._session = secrets.token_hex(16)
        self._wanted = msgspec.structs.replace(wanted, session=self._session)
        self._patience_s = patience_s
        is_tail = wanted.tail_lines is not None or wanted.tail_bytes is not None
        self._expected: int | None = None if is_tail else wanted.offset
        self._begun_at = self._expected
        self._said = wanted.offset
        self._size = self._largest = 0
        self._messages: asyncio.Queue[Msg | None] = asyncio.Queue(MOST_WAITING)
        self._unanswered = 0
        self._subscription: Subscription | None = None
        self._out = session_out(who.user, None, self._session)

    async def open(self) -> SessionOpened:
        """Ask for the session.

        Raises:
            RankdError: the refusal; the last error after ``patience_s``.
        """
        if self._subscription is None:
            self._subscription = await self._bus.client.subscribe(
                self._out, cb=self._messages.put, pending_bytes_limit=MOST_WAITING_BYTES
            )
            self._bus.after_reconnect.append(self._on_reconnect)
        self.opened = await self._open_again()
        return self.opened

    @property
    def known(self) -> SessionOpened:
        """What the intake has answered. Only after :meth:`open`."""
        assert self.opened is not None  # noqa: S101 - the caller has opened it
        return self.opened

    @property
    def begins_at(self) -> int:
        """The number of the first byte that is read, once one has come: above 0 where only the last ones are read."""
        return self._begun_at or 0

    @property
    def behind_bytes(self) -> int:
        """How many bytes were written, as far as the agent has said, that did not come yet."""
        return max(0, self._size - (self._expected or 0))

    def anew(self) -> LogStream:
        """A stream of the same run that begins with the first byte: for a file that the job has emptied."""
        known = {"session": None, "offset": 0, "tail_lines": None, "tail_bytes": None, "attempt": self.known.attempt}
        wanted = msgspec.structs.replace(self._wanted, **known)
        return LogStream(self._bus, self._who, wanted, patience_s=self._patience_s)

    async def leave(self) -> None:
        """End the session before its end."""
        await self._say(Leave())
        await self._end()

    async def _on_reconnect(self) -> None:
        with suppress(asyncio.QueueFull):
            self._messages.put_nowait(None)

    async def _open_again(self, *, again: bool = False) -> SessionOpened:
        """Open or renew the session, and say on which subject to answer. ``again``: send what was not consumed."""
        loop = asyncio.get_running_loop()
        until = None if self._patience_s is None else loop.time() + self._patience_s
        while True:
            try:
                opened = await self._ask(again=again)
            except Unavailable as error:
                self._bus.check_accepted()
                if error.status != 503 or (until is not None and loop.time() >= until):
                    raise
                await asyncio.sleep(AGAIN_S)
            else:
                await self._say(Alive(), opened)
                return opened

    async def _ask(self, *, again: bool) -> SessionOpened:
        request = self._wanted
        if self._expected is not None:
            done = self._expected - (self._begun_at or 0)
            limit = None if request.limit is None else max(1, request.limit - done)
            request = msgspec.structs.replace(
                request, offset=self._expected, limit=limit, tail_lines=None, tail_bytes=None, again=again
            )
        subject = self._who.subject("job.log")
        return await self._bus.request(subject, encode(request), SessionOpened, timeout_s=ASK_TIMEOUT_S)

    async def _say(self, message: msgspec.Struct, opened: SessionOpened | None = None) -> None:
        """Send a message to the agent. One that is lost is made up for later."""
        opened = opened or self.opened
        if opened is None:
            return
        subject = session_in(self._who.user, opened.node, self._session)
        reply = session_out(self._who.user, opened.node, self._session) if isinstance(message, Alive) else ""
        with suppress(*LOST):
            await self._bus.client.publish(subject, encode(message), reply=reply)

    async def parts(self, *, beats: bool = False) -> AsyncGenerator[bytes, None]:
        """The bytes, part by part, to the end. The agent sends more when these are consumed.

        ``beats``: also an empty part at the beginning, and whenever nothing has come for some seconds.

        Raises:
            RankdError: it can't be read, or not any more; ``log_emptied``: see :meth:`anew`.
        """
        if self.opened is None:
            await self.open()
        loop = asyncio.get_running_loop()
        renew_at = loop.time() + RENEW_S
        try:
            if beats:
                yield b""
            while True:
                message = await self._next(min(renew_at - loop.time(), self._patience()))
                if message is None:
                    await self._look_after(loop.time() >= renew_at)
                    renew_at = loop.time() + RENEW_S if loop.time() >= renew_at else renew_at
                    if beats:
                        yield b""
                    continue
                if _is_unheard(message):
                    self._unanswered = max(self._unanswered, LOST_AFTER)
                    continue
                self._unanswered = 0
                data = await self._accepted(message)
                if data:
                    yield data
                    await self._consumed()
                if self._ends(message):
                    return
        finally:
            await self.leave()

    def _patience(self) -> float:
        """How long to wait for the next message before the agent is asked: briefly if it has something to send."""
        if self._unanswered:
            return UNHEARD_S
        return OWED_S if not self._wanted.follow or self._size > (self._expected or 0) else RENEW_S

    async def _next(self, timeout_s: float) -> Msg | None:
        """The next message; None if none came, or the connection is another one."""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                return await self._messages.get()
        except TimeoutError:
            return None

    async def _look_after(self, is_due: bool) -> None:
        """Renew the session when that is due. Otherwise ask the agent whether it is there."""
        self._unanswered += 1
        if is_due or self._unanswered > LOST_AFTER:
            self.opened = await self._open_again(again=not is_due)
            self._unanswered = 1
        else:
            await self._say(Alive())

    async def _accepted(self, message: Msg) -> bytes:
        """The bytes of a message that are new here. If some before them are missing, asks for those.

        Raises:
            RankdError: the agent's error; ``log_emptied``: the file has fewer bytes than have come from it.
        """
        raise_if_refused(message)
        try:
            offset = int((message.headers or {})[OFFSET])
        except (KeyError, ValueError):
            return b""
        with suppress(KeyError, ValueError):
            self._size = int((message.headers or {})[SIZE])
        if self._expected is None:
            self._expected = self._begun_at = self._said = offset
        self._largest = max(self._largest, self._size)
        if self._size < self._expected <= self._largest:  # another agent does not know what the one before has sent
            raise log_emptied(self.known.path)
        if offset > self._expected:
            await self._say(Again(stream=self._wanted.stream, offset=self._expected))
            return b""
        data = message.data[self._expected - offset :]
        self._expected += len(data)
        return data

    async def _consumed(self) -> None:
        if self._expected is not None and self._expected - self._said >= CONSUMED_BYTES:
            self._said = self._expected
            await self._say(Consumed(stream=self._wanted.stream, offset=self._expected))

    def _ends(self, message: Msg) -> bool:
        headers = message.headers or {}
        return headers.get(END) == "true" and headers.get(OFFSET) == str(self._expected)

    async def _end(self) -> None:
        if self._subscription is not None:
            with suppress(*LOST):
                await self._subscription.unsubscribe()
        if self._on_reconnect in self._bus.after_reconnect:
            self._bus.after_reconnect.remove(self._on_reconnect)


def _is_unheard(message: Msg) -> bool:
    """Whether the broker says that nobody hears what was sent: a broker without accounts does."""
    return not message.data and (message.headers or {}).get("Status") == "503"

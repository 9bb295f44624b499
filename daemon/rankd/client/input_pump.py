"""Sends this process's input to a session: as much as the other side takes, each byte once, and its end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

from rankd.wire.session import INPUT_MESSAGE_BYTES, INPUT_WINDOW_BYTES

AGAIN_S = 2.0
"""Without a word about how much was taken for this long, input is sent again from there."""
FIRST_AGAIN_S = 0.05
"""The same for the first input, doubled each time: what comes before the process has its streams is lost."""


class Window:
    """The input that was not taken yet. Pure."""

    def __init__(self) -> None:
        self.taken = 0
        self.sent = 0
        self.has_ended = False
        self._left = bytearray()

    @property
    def end(self) -> int:
        """The offset behind the last byte that was read."""
        return self.taken + len(self._left)

    @property
    def is_full(self) -> bool:
        """Whether no more should be read: one more part could be more than the other side has room for."""
        return len(self._left) + INPUT_MESSAGE_BYTES > INPUT_WINDOW_BYTES or self.has_ended

    def add(self, part: bytes) -> None:
        """Add what was read; nothing is the end."""
        self._left += part
        self.has_ended = self.has_ended or not part

    def take(self, offset: int) -> None:
        """The other side has everything before this offset."""
        offset = min(offset, self.end)
        if offset > self.taken:
            del self._left[: offset - self.taken]
            self.taken = offset
        self.sent = max(self.sent, self.taken)

    def again(self) -> None:
        """Send again what was not taken."""
        self.sent = self.taken

    def next(self) -> tuple[int, bytes] | None:
        """The next part to send, with its offset; None if there is none.

        >>> window = Window()
        >>> window.add(b"abc")
        >>> window.next(), window.next()
        ((0, b'abc'), None)
        >>> window.take(1)
        >>> window.again()
        >>> window.next()
        (1, b'bc')
        """
        begin = self.sent - self.taken
        part = bytes(self._left[begin : begin + INPUT_MESSAGE_BYTES])
        if not part:
            return None
        offset, self.sent = self.sent, self.sent + len(part)
        return offset, part


async def _nothing() -> None:
    """Ask nobody."""


class InputPump:
    """Reads a descriptor in a thread, so that files and terminals are the same.

    ``look`` sees each part. ``ask`` is awaited when nobody answered: is the other side there?
    """

    def __init__(
        self,
        descriptor: int,
        send: Callable[[int, bytes], Awaitable[None]],
        send_end: Callable[[int], Awaitable[None]],
        look: Callable[[bytes], None] = lambda _part: None,
        ask: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self.window = Window()
        self._descriptor = descriptor
        self._send = send
        self._send_end = send_end
        self._look = look
        self._ask = ask
        self._news = asyncio.Event()
        self._room = threading.Event()
        self._end_taken = False
        self._is_reading = False
        self._again_s = FIRST_AGAIN_S
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Begin to read."""
        self._read_on()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while self._room.wait():
            self._room.clear()
            try:
                part = os.read(self._descriptor, INPUT_MESSAGE_BYTES)
            except OSError:  # it is closed, or its terminal has gone
                part = b""
            try:
                self._loop.call_soon_threadsafe(self._add, part)
            except RuntimeError:  # the command has ended
                return
            if not part:
                return

    def _read_on(self) -> None:
        """Let the thread read one part, if there is room for it besides what it reads just now."""
        if not self._is_reading and not self.window.is_full:
            self._is_reading = True
            self._room.set()

    def _add(self, part: bytes) -> None:
        self._is_reading = False
        self._look(part)
        self.window.add(part)
        self._read_on()
        self._news.set()

    def taken(self, offset: int, *, end: bool) -> None:
        """The other side has taken the input before ``offset``, and its end if ``end``."""
        if offset > self.window.taken or end:
            self._again_s = AGAIN_S
        self.window.take(offset)
        self._end_taken = self._end_taken or end
        self._read_on()
        self._news.set()

    def again(self) -> None:
        """Send again what was not taken, after a connection was lost."""
        self.window.again()
        self._news.set()

    async def run(self) -> None:
        """Send until the end was taken, or until cancelled."""
        while not self._end_taken:
            self._news.clear()
            while (part := self.window.next()) is not None:
                await self._send(*part)
            if self.window.has_ended and self.window.taken == self.window.end:
                await self._send_end(self.window.end)
            waits = self.window.sent > self.window.taken or self.window.has_ended
            try:
                async with asyncio.timeout(self._again_s if waits else None):
                    await self._news.wait()
            except TimeoutError:
                self._again_s = min(2 * self._again_s, AGAIN_S)
                self.window.again()
                await self._ask()

"""Files that jobs write, as sessions read them: opened once for all sessions with a file, and looked at by one loop.

Many sessions that follow one file cost one look, and one reading of what is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from rankd.core.errors import RankdError, Refused
from rankd.services.agent.user_reader import ReaderLost, UserReader, UserReaders, asked
from rankd.wire.session import MESSAGE_BYTES, log_emptied

FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 0.5
"""How often a file that is followed is looked at: often while it grows."""
AGAIN_S = 1.0
ATTEMPTS = 3
EARLIER_S = 60.0
"""A file that was last changed so long before its job started is that of an earlier job. Clocks of hosts differ."""
CACHED_S = 0.5


class Part(NamedTuple):
    """Bytes, and the file's size when they were read."""

    data: bytes
    size: int


class FileOf(NamedTuple):
    """Which file: of whose job, of which allocation. ``appends``: it may be older than the job."""

    owner: str
    path: str
    allocation: int
    started_at: float | None
    appends: bool


class LogFile:
    """One file. ``is_running`` says whether its job may still write to it."""

    def __init__(self, file: FileOf, readers: UserReaders, is_running: Callable[[], bool]) -> None:
        self.users = 0
        self.is_running = is_running
        self._file = file
        self._readers = readers
        self._reader: UserReader | None = None
        self._handle = 0
        self._opening = asyncio.Lock()
        self._cached = Part(b"", 0)
        self._cached_from, self._cached_until_s = 0, 0.0
        self._watching = set[asyncio.Event]()
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> UserReader:
        """Open it, if it is not open.

        Raises:
            Refused: ``log_gone``, ``log_unreadable``.
            Unavailable: ``busy``.
            ReaderLost: the process that reads has gone.
        """
        async with self._opening:
            if self._reader is not None and not self._reader.has_ended:
                return self._reader
            self._reader = None
            reader = await self._readers.of(self._file.owner)
            handle, changed_at = await asked(self._file.path, lambda: reader.open(self._file.path))
            self._reader, self._handle = reader, handle
            started_at = self._file.started_at
            if not self._file.appends and started_at is not None and changed_at < started_at - EARLIER_S:
                await self.close()
                message = f"{self._file.path} was last changed before the job started: the job's own file was removed"
                raise Refused("log_gone", message, status=404)
            return reader

    async def read(self, offset: int, most: int, mark: bytes = b"") -> Part:
        """Bytes from this offset, possibly none. ``mark``: those before them, as they were read earlier.

        Raises:
            Refused: ``log_emptied``: the mark is not there any more. Also as :meth:`open`, after some attempts.
        """
        begin, now = offset - self._cached_from, asyncio.get_running_loop().time()
        if len(mark) <= begin < len(self._cached.data) and now < self._cached_until_s:  # another session has read it
            part = Part(self._cached.data[begin - len(mark) : begin + most], self._cached.size)
        else:
            part = await self._read_again(offset - len(mark), len(mark) + most)
        if not part.data.startswith(mark):
            raise log_emptied(self._file.path)
        return Part(part.data[len(mark) :], part.size)

    async def _read_again(self, offset: int, most: int) -> Part:
        """Read; again if the process that reads has gone."""
        for _ in range(ATTEMPTS - 1):
            with suppress(ReaderLost):
                return await self._read(offset, most)
            await asyncio.sleep(AGAIN_S)
        return await self._read(offset, most)

    async def _read(self, offset: int, most: int) -> Part:
        reader = await self.open()
        size, data = await asked(self._file.path, lambda: reader.read(self._handle, offset, MESSAGE_BYTES))
        if self.users > 1:
            self._cached, self._cached_from = Part(data, size), offset
            self._cached_until_s = asyncio.get_running_loop().time() + CACHED_S
        return Part(data[:most], size)

    async def tail(self, lines: int) -> int:
        """The offset at which the last lines begin. Raises as :meth:`open`."""
        reader = await self.open()
        return await asked(self._file.path, lambda: reader.tail(self._handle, lines))

    async def size(self) -> int:
        """Its size now. Raises as :meth:`open`."""
        reader = await self.open()
        return await asked(self._file.path, lambda: reader.size(self._handle))

    def watch(self, event: asyncio.Event) -> None:
        """Set the event from now on whenever the file has grown, and when its job has ended."""
        self._watching.add(event)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def unwatch(self, event: asyncio.Event) -> None:
        """Do not set the event any more."""
        self._watching.discard(event)

    async def _look(self) -> None:
        """Look at its size while somebody watches."""
        known, pause_s, was_running = -1, FIRST_LOOK_S, self.is_running()
        while self._watching:
            size, is_running = known, self.is_running()
            with suppress(ReaderLost, RankdError):
                size = await self.size()
            if size != known or is_running != was_running:
                for event in self._watching:
                    event.set()
                pause_s = FIRST_LOOK_S
            known, was_running = size, is_running
            if asyncio.get_running_loop().time() > self._cached_until_s:
                self._cached = Part(b"", 0)
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)

    async def close(self) -> None:
        """Close it."""
        reader, self._reader = self._reader, None
        if reader is not None and not reader.has_ended:
            await reader.close_file(self._handle)


class LogFiles:
    """The files that sessions have open."""

    def __init__(self, readers: UserReaders, is_running: Callable[[int], bool]) -> None:
        self._readers = readers
        self._is_running = is_running
        self._files: dict[FileOf, LogFile] = {}

    def use(self, file: FileOf) -> LogFile:
        """The file for one more session, which calls :meth:`leave` once."""
        found = self._files.get(file)
        if found is None:
            found = self._files[file] = LogFile(file, self._readers, lambda: self._is_running(file.allocation))
        found.users += 1
        return found

    async def leave(self, file: FileOf) -> None:
        """A session does not need the file any more."""
        found = self._files[file]
        found.users -= 1
        if not found.users:
            del self._files[file]
            await found.close()

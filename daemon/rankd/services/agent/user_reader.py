"""The agent's side of :mod:`.file_reader`: a process for each user whose files are read, ended when it is idle."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from rankd.core.errors import Refused, Unavailable
from rankd.services.agent import file_reader
from rankd.services.agent.file_reader import ANSWER, CLOSE, MOST_BYTES, OPEN, READ, REQUEST, SIZE, TAIL, TIME
from rankd.services.keeper.proc import Identity

T = TypeVar("T")

MOST_READERS = 64
ANSWER_S = 4.0
"""A file system that takes longer is not waited for."""
IDLE_S = 30.0


class ReaderLost(Exception):
    """The process has ended, or does not answer."""


class UserReader:
    """One process. Requests wait for each other."""

    def __init__(self) -> None:
        self.handles = 0
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def start(self, identity: Identity | None) -> None:
        """Start it as this user; None means the agent's own.

        Raises:
            OSError: no process can be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.to_thread(_spawned, theirs, identity)
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)

    async def open(self, path: str) -> tuple[int, float]:
        """A handle for the file, and the time of its last change (UTC seconds).

        Raises:
            OSError: it can't be opened.
            ReaderLost: the process has gone.
        """
        handle, data = await self._ask(OPEN, content=os.fsencode(path))
        self.handles += 1
        return handle, float(TIME.unpack(data)[0])

    async def read(self, handle: int, offset: int, most: int) -> tuple[int, bytes]:
        """The file's size now, and bytes from this offset. Raises as :meth:`open`."""
        return await self._ask(READ, handle, offset, min(most, MOST_BYTES))

    async def size(self, handle: int) -> int:
        """The file's size now. Raises as :meth:`open`."""
        return (await self._ask(SIZE, handle))[0]

    async def tail(self, handle: int, lines: int) -> int:
        """The offset at which the last lines begin. Raises as :meth:`open`."""
        return (await self._ask(TAIL, handle, number=min(lines, 2**32 - 1)))[0]

    async def close_file(self, handle: int) -> None:
        """Close a file."""
        self.handles -= 1
        with suppress(OSError, ReaderLost):
            await self._ask(CLOSE, handle)

    async def _ask(
        self, operation: bytes, handle: int = 0, offset: int = 0, number: int = 0, content: bytes = b""
    ) -> tuple[int, bytes]:
        async with self._turn:
            if self._reader is None or self._writer is None:
                raise ReaderLost
            try:
                async with asyncio.timeout(ANSWER_S):
                    self._writer.write(REQUEST.pack(operation, handle, offset, number, len(content)) + content)
                    status, found, length = ANSWER.unpack(await self._reader.readexactly(ANSWER.size))
                    data = await self._reader.readexactly(min(length, MOST_BYTES))
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
                self.end()
                raise ReaderLost from error
            except asyncio.CancelledError:  # its answer would be taken for that of the next request
                self.end()
                raise
        if status:
            raise OSError(status, os.strerror(status))
        return found, data

    @property
    def has_ended(self) -> bool:
        """Whether it can't be asked any more."""
        return self._writer is None

    def end(self) -> None:
        """End the process. One that the kernel can't end now is left."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):
                process.send_signal(signal.SIGKILL)
            asyncio.get_running_loop().run_in_executor(None, _reap, process)


def _reap(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(ANSWER_S)
    process.returncode = process.returncode or 0


def _spawned(theirs: socket.socket, identity: Identity | None) -> subprocess.Popen[bytes]:
    user = [str(identity.uid), str(identity.gid), ",".join(map(str, identity.groups))] if identity is not None else []
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-I", "-S", file_reader.__file__, str(theirs.fileno()), *user],
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )


class UserReaders:
    """The processes of one agent. ``identity`` returns whom a job of a user runs as; None: the agent's own user."""

    def __init__(self, identity: Callable[[str], Identity | None]) -> None:
        self._identity = identity
        self._readers: dict[str, UserReader] = {}
        self._starting = asyncio.Lock()

    async def of(self, user: str) -> UserReader:
        """The process that reads the files of a user's jobs.

        Raises:
            Refused: jobs of this user don't run here.
            Unavailable: ``busy``: too many are running; none can be started.
        """
        async with self._starting:
            found = self._readers.get(user)
            if found is not None and not found.has_ended:
                return found
            self._readers = {name: one for name, one in self._readers.items() if not one.has_ended}
            if len(self._readers) >= MOST_READERS:
                self._end_idle()
            if len(self._readers) >= MOST_READERS:
                raise Unavailable("busy", f"files of {MOST_READERS} users are being read on this node; try again later")
            reader = UserReader()
            try:
                await reader.start(self._identity(user))
            except OSError as error:
                message = f"no process can be started on this node: {error.strerror}; try again"
                raise Unavailable("busy", message) from error
            self._readers[user] = reader
            return reader

    def _end_idle(self) -> None:
        for reader in self._readers.values():
            if not reader.handles:
                reader.end()
        self._readers = {name: one for name, one in self._readers.items() if not one.has_ended}

    async def tidy(self) -> None:
        """End the processes that nobody has needed for a while, until cancelled; then all of them."""
        idle: set[str] = set()
        try:
            while True:
                await asyncio.sleep(IDLE_S)
                now = {name for name, one in self._readers.items() if not one.handles}
                for name in idle & now:
                    self._readers.pop(name).end()
                idle = now - idle
        finally:
            for reader in self._readers.values():
                reader.end()


async def asked(path: str, action: Callable[[], Awaitable[T]]) -> T:
    """The result of a request about the file at this path, with errors as users are told them.

    Raises:
        Refused: ``log_gone``, ``log_unreadable``.
    """
    try:
        return await action()
    except FileNotFoundError:
        raise Refused("log_gone", f"{path} is not there any more: it was removed", status=404) from None
    except OSError as error:
        why = "it is not a regular file" if error.errno == file_reader.NOT_A_FILE else error.strerror
        raise Refused("log_unreadable", f"{path} can't be read: {why}", status=404) from None

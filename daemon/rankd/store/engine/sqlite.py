"""SQLite: how processes write to the file, and how it is read.

Writing: a single thread of this process has one connection. A write is one synchronous function that runs as a whole on
that thread, while it holds the file lock. So no wait of the event loop ever lengthens a transaction. Reading: also a
synchronous function, as a whole on one of a few threads. Connections that read are ``query_only``.

Commits are durable (``synchronous=FULL``) unless the writer passes ``durable=False``. It does so if losing the last
commits in a power failure only costs repeated work, as for generations.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Row

from rankd.core.errors import Unavailable, usable
from rankd.store.engine.checkpoint import Checkpoint
from rankd.store.engine.connection import ping
from rankd.store.engine.database import ALIVE_EVERY_S, CHECKPOINT_PAGES, Database
from rankd.store.engine.driver import CHECKPOINTS_BESIDE_WRITERS, sqlite3
from rankd.store.engine.lock import FileLock
from rankd.store.engine.role import Roles
from rankd.store.engine.sqlite_connection import reading_engine, storage_failures, writing_engine

T = TypeVar("T")

LONG_WAIT_S = 3.0
"""After this many seconds of waiting, :meth:`SqliteDatabase.trouble` reports that another process holds the file."""
RECENT_FAILURE_S = 30.0
"""A failed write is reported for this many seconds, unless a later one succeeds."""
MAX_GROUP = 250
"""About 10 ms, in which no other process can write."""
READERS = 4
"""The number of short reads of a process that run at the same time."""
LOOKERS = 4
"""The number of reads for users that run at the same time, on separate threads and connections."""


class SqliteDatabase(Database):
    """Implements :class:`.database.Database` for a file.

    ``clock`` returns UTC seconds. ``beside_writers``: checkpoints run while other processes write.
    """

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        clock: Callable[[], float] = time.time,
        beside_writers: bool = CHECKPOINTS_BESIDE_WRITERS,
    ) -> None:
        self._path = path
        with usable(path, "db"):
            _make_private(path)
            self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._roles = Roles(path, clock)
        self._waits_since: float | None = None
        self._failed: tuple[float, str] | None = None
        self._checkpoint = Checkpoint(path, beside_writers=beside_writers)
        self._checkpointer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-checkpoint")
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._writing = writing_engine(path, durable=durable)
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._reading = reading_engine(path, READERS)
        self._lookers = ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="store-looker")
        self._looking = reading_engine(path, LOOKERS)

    @property
    def path(self) -> Path:
        """See :class:`.database.Database`."""
        return self._path

    @property
    def url(self) -> str:
        """See :class:`.database.Database`."""
        return str(self._path.absolute())

    async def __aenter__(self) -> Self:
        """Open the database; connections are made when they are first used."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything. The checkpoint of the last connection runs under the lock."""
        for readers, engine in ((self._readers, self._reading), (self._lookers, self._looking)):
            await asyncio.to_thread(readers.shutdown)
            engine.dispose()
        await asyncio.to_thread(self._checkpointer.shutdown)
        await asyncio.get_running_loop().run_in_executor(self._writer, self._close)
        self._writer.shutdown()

    def _close(self) -> None:
        with self._lock.held():
            self._checkpoint.close()
            self._writing.dispose()
        self._roles.close()
        self._lock.close()

    async def write(
        self,
        work: Callable[[Connection], T],
        *,
        role: str | None = None,
        brief: bool = False,  # noqa: ARG002 - the system gives the lock back only when the process ends
    ) -> T:
        """See :class:`.database.Database`: on the writer thread, under the file lock."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._write, work, role)

    async def write_observed(
        self, query: str, work: Callable[[Connection, Row[Any]], T], *, role: str | None = None, brief: bool = False
    ) -> tuple[T, Row[Any]]:
        """See :class:`.database.Database`."""

        def observed(connection: Connection) -> tuple[T, Row[Any]]:
            result = work(connection, connection.exec_driver_sql(query).one())
            return result, connection.exec_driver_sql(query).one()

        return await self.write(observed, role=role, brief=brief)

    def _write(self, work: Callable[[Connection], T], role: str | None) -> T:
        self._waits_since = time.monotonic()
        try:
            with self._lock.held(), self._writing.begin() as connection:
                self._waits_since = None
                if role is not None:
                    self._roles.check(connection, role)
                result = work(connection)
        except Exception as error:
            if isinstance(getattr(error, "orig", None), sqlite3.OperationalError):
                self._failed = (time.monotonic(), str(error.orig))  # type: ignore[attr-defined]
                raise Unavailable("storage_failed", f"the database could not be written: {self._failed[1]}") from error
            raise
        finally:
            self._waits_since = None
        self._failed = None
        return result

    def trouble(self) -> str | None:
        """See :class:`.database.Database`."""
        now, since, failed = time.monotonic(), self._waits_since, self._failed
        if since is not None and now - since > LONG_WAIT_S:
            return f"another process has held the database {self.path} for {now - since:.0f} s"
        if failed is not None and now - failed[0] < RECENT_FAILURE_S:
            return f"the database {self.path} cannot be written: {failed[1]}"
        return None

    async def read(self, work: Callable[[Connection], T]) -> T:
        """See :class:`.database.Database`."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work, self._reading)

    async def ask(self) -> None:
        """See :class:`.database.Database`."""
        await self.read(ping)

    async def read_in_thread(self, work: Callable[[Connection], T]) -> T:
        """See :class:`.database.Database`."""
        return await asyncio.to_thread(self._read, work, self._reading)

    async def look(self, work: Callable[[Connection], T]) -> T:
        """See :class:`.database.Database`."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, self._read, work, self._looking)

    def _read(self, work: Callable[[Connection], T], engine: Engine) -> T:
        with storage_failures("read"), engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return work(connection)

    async def checkpoint(self) -> int:
        """See :class:`.database.Database`: copy the write-ahead log into the file once it holds enough pages."""
        pages = self._checkpoint.pages()
        if pages < CHECKPOINT_PAGES:
            return pages
        with storage_failures("copied from its log"):
            await asyncio.get_running_loop().run_in_executor(self._checkpointer, self._checkpoint.run)
        return self._checkpoint.pages()

    async def take_role(self, role: str, now: float) -> int:
        """See :class:`.database.Database`."""
        await self._roles.acquire(role)
        return await self.write(lambda connection: self._roles.begin_epoch(connection, role, now))

    @property
    def group_size(self) -> int:
        """See :class:`.database.Database`."""
        return MAX_GROUP

    @property
    def has_standbys(self) -> bool:
        """See :class:`.database.Database`: a file lock holds the role."""
        return False

    async def stay_alive(self, role: str) -> float:
        """See :class:`.database.Database`."""
        await self.write(lambda _: None, role=role)
        return ALIVE_EVERY_S

    def has_followed(self, role: str) -> bool:  # noqa: ARG002 - of any
        """See :class:`.database.Database`: nothing waits."""
        return False

    def note_ready(self, role: str) -> None:
        """See :class:`.database.Database`: nobody takes over on one machine, so nothing is recorded."""


def _make_private(path: Path) -> None:
    """Make a new file private to its owner; an old one is unchanged. SQLite gives its log and index the same mode."""
    with suppress(OSError):  # if no file can be made there, SQLite's own error gives the reason
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))

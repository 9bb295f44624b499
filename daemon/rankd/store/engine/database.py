"""One database file: who may write how, and how it is read.

Writing: a single thread of this process holds one connection. A write is one synchronous function that runs
whole on that thread, between taking the file lock and giving it back, so that no wait of the event loop ever
lengthens a transaction. Reading: SQLAlchemy's asyncio engine on aiosqlite; where a service looks at every commit, a
function that runs whole on a thread. All connections that read are ``query_only``.

Commits are durable (``synchronous=FULL``) unless the writer says that losing the last one in a power failure
costs nothing but work (generations: ``durable=False``).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from rankd.core.errors import RoleLost, Unavailable, usable
from rankd.store.engine.lock import FileLock, acquire_or_fail
from rankd.store.engine.wal import Log, read_log, sync_log

T = TypeVar("T")

BUSY_TIMEOUT_MS = 30_000
CHECKPOINT_PAGES = 1000
"""A checkpoint is due when so many are in the log. All writers stand still while it lasts: for about 10 ms then."""
STORAGE_CODES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""SQLite's codes for what may pass by itself."""
NO_EPOCH = 0
ALIVE_EVERY_S = 5.0
"""A role's holder leaves a sign of life this often, with a write of its own work if there is one."""
LONG_WAIT_S = 3.0
"""A write that has waited for its turn for this long is held up by somebody."""
RECENT_FAILURE_S = 30.0
"""A write that failed is trouble for this long, unless a later one succeeds."""
READERS = 4
"""So many short reads of a process go on at a time."""
LOOKERS = 4
"""So many reads for users who look, on threads and connections of their own."""


def sqlite_path(url: str) -> Path:
    """The file behind ``--db``: an SQLAlchemy URL (``sqlite:////var/lib/rankd.db``) or a plain path.

    Raises:
        Unavailable: ``unsupported_database`` for any other database.
    """
    if "://" not in url:
        return Path(url).absolute()
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise Unavailable("unsupported_database", f"'{url}': this version stores in SQLite; give sqlite:///FILE")
    return Path(parsed.database).absolute()


class Database(AbstractAsyncContextManager["Database"]):
    """``async with Database(path) as database``; made by one process for all of its tasks."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        with usable(path, "db"):
            _make_private(path)
            self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._durable = durable
        self._waits_since: float | None = None
        self._failed: tuple[float, str] | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._wal = path.with_name(path.name + "-wal")
        self._copied = Log(b"", 0)
        self._roles: dict[str, tuple[int, FileLock]] = {}
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)),
            poolclass=StaticPool,
            connect_args={"check_same_thread": False, "isolation_level": None},
        )
        event.listen(self._engine, "connect", self._on_writer_connect)
        event.listen(self._engine, "begin", _begin_immediate)
        self._asyncio: AsyncEngine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=str(path)), pool_size=2, max_overflow=2
        )
        event.listen(self._asyncio.sync_engine, "connect", _on_reader_connect)
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._reading = create_engine(
            URL.create("sqlite", database=str(path)),
            pool_use_lifo=True,  # pages that one connection has read stay in its cache
            connect_args={"check_same_thread": False, "isolation_level": None},
        )
        event.listen(self._reading, "connect", _on_reader_connect)

        self._lookers = ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="store-looker")
        self._looking = create_engine(
            URL.create("sqlite", database=str(path)),
            pool_size=LOOKERS,
            connect_args={"check_same_thread": False, "isolation_level": None},
        )
        event.listen(self._looking, "connect", _on_reader_connect)

    def _on_writer_connect(self, connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = OFF")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything; the last connection's own checkpoint happens under the lock."""
        await self._asyncio.dispose()
        for readers, engine in ((self._readers, self._reading), (self._lookers, self._looking)):
            await asyncio.to_thread(readers.shutdown)
            engine.dispose()
        await asyncio.get_running_loop().run_in_executor(self._writer, self._close)
        self._writer.shutdown()

    async def __aenter__(self) -> Self:
        """Open; connections are made when first used."""
        return self

    def _close(self) -> None:
        with self._lock.held():
            self._engine.dispose()
        for _, lock in self._roles.values():
            lock.close()
        self._lock.close()

    async def write(self, work: Callable[[Connection], T], *, role: str | None = None) -> T:
        """Run ``work`` as one transaction on the writer thread, under the file lock.

        With ``role``, the transaction first checks that this process still holds it.

        Raises:
            RoleLost: another instance has taken the role.
            Unavailable: ``storage_failed``: disk full or a failing device; nothing was written.
        """
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._write, work, role)

    def _write(self, work: Callable[[Connection], T], role: str | None) -> T:
        self._waits_since = time.monotonic()
        try:
            with self._lock.held(), self._engine.begin() as connection:
                self._waits_since = None
                if role is not None:
                    self._check_role(connection, role)
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
        """What a write waits for at present, or why the last one failed; None if writing works."""
        now, since, failed = time.monotonic(), self._waits_since, self._failed
        if since is not None and now - since > LONG_WAIT_S:
            return f"another process has held the database {self.path} for {now - since:.0f} s"
        if failed is not None and now - failed[0] < RECENT_FAILURE_S:
            return f"the database {self.path} cannot be written: {failed[1]}"
        return None

    async def stay_alive(self, role: str) -> None:
        """Leave a sign of life of the holder of ``role``, unless one of its writes has left one just now.

        Raises:
            RoleLost, Unavailable: as :meth:`write`.
        """
        await self.write(lambda _: None, role=role)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one read transaction, so that it sees one state of the database.

        Raises:
            Unavailable: ``storage_failed``: disk full or a failing device.
        """
        with _storage_failures("read"):
            async with self._asyncio.connect() as connection:
                return await _in_transaction(connection, work)

    async def read_at_once(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read`, whole on a thread: for what is done at every commit. It costs half the processor time."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    async def read_in_thread(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read_at_once`, for work that takes its time: it keeps no short read waiting."""
        return await asyncio.to_thread(self._read, work)

    async def look(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`read_at_once`, for users who look: however many they are, no other read waits behind them."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, self._read, work, self._looking)

    def _read(self, work: Callable[[Connection], T], engine: Engine | None = None) -> T:
        with _storage_failures("read"), (engine or self._reading).connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return work(connection)

    async def checkpoint(self) -> int:
        """Move the write-ahead log into the file once it holds enough; the janitor's duty.

        How many pages it holds now: still many where a reader sees the state before them.

        Raises:
            Unavailable: ``storage_failed``: disk full or a failing device; the log keeps everything.
        """
        pages = self._pages_in_log()
        if pages < CHECKPOINT_PAGES:
            return pages
        with _storage_failures("copied from its log"):
            await asyncio.to_thread(sync_log, self._wal)  # nobody waits under the lock for what is on the disk already
            await asyncio.get_running_loop().run_in_executor(self._writer, self._checkpoint)
        return self._pages_in_log()

    def _pages_in_log(self) -> int:
        """Those that are not in the file yet."""
        log = read_log(self._wal)
        return log.frames - self._copied.frames if log.salts == self._copied.salts else log.frames

    def _checkpoint(self) -> None:
        self._waits_since = time.monotonic()
        with self._lock.held(), self._engine.connect() as connection:
            self._waits_since = None
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)  # noqa: S101 - narrows the type
            # PASSIVE never waits: a reader that forgot to finish must not hold up everybody's writes
            ((_, _, copied),) = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._copied = Log(read_log(self._wal).salts, copied)

    async def take_role(self, role: str, now: float) -> int:
        """Become the only holder of ``role`` until :meth:`__aexit__`; returns the new epoch.

        Raises:
            Unavailable: ``already_running``: somebody else holds it.
        """
        path = self.path.with_name(f"{self.path.name}.{role}.lock")
        lock = await acquire_or_fail(path, role)
        self._roles[role] = (NO_EPOCH, lock)  # kept from here on, so that closing gives it back
        epoch = await self.write(lambda connection: _next_epoch(connection, role, now))
        self._roles[role] = (epoch, lock)
        return epoch

    def _check_role(self, connection: Connection, role: str) -> None:
        row = connection.exec_driver_sql("SELECT epoch, alive_at FROM roles WHERE name = ?", (role,)).first()
        if row is None or role not in self._roles or row[0] != self._roles[role][0]:
            raise RoleLost(role)
        now = time.time()
        if row[1] is None or not 0 <= now - row[1] < ALIVE_EVERY_S:
            connection.exec_driver_sql("UPDATE roles SET alive_at = ? WHERE name = ?", (now, role))


@contextmanager
def _storage_failures(done: str) -> Iterator[None]:
    """Turn what a full disk or a failing device raises into ``storage_failed``; other errors pass."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = getattr(error, "orig", error)
        if isinstance(cause, OSError) or getattr(cause, "sqlite_errorcode", 0) & 0xFF in STORAGE_CODES:
            raise Unavailable("storage_failed", f"the database could not be {done}: {cause}") from error
        raise


async def _in_transaction(connection: AsyncConnection, work: Callable[[Connection], T]) -> T:
    def run(sync: Connection) -> T:
        sync.exec_driver_sql("BEGIN")
        return work(sync)

    # Giving the connection back ends the transaction; a ROLLBACK of our own would fail when the task is cancelled.
    return await connection.run_sync(run)


def _next_epoch(connection: Connection, role: str, now: float) -> int:
    holder = f"{os.uname().nodename}:{os.getpid()}"
    connection.exec_driver_sql(
        "INSERT INTO roles (name, epoch, holder, since) VALUES (?, 1, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1, holder = excluded.holder, since = excluded.since",
        (role, holder, now),
    )
    return int(connection.exec_driver_sql("SELECT epoch FROM roles WHERE name = ?", (role,)).scalar_one())


def _make_private(path: Path) -> None:
    """A new file is its owner's alone; SQLite gives its log and its index the same mode. An old one stays as it is."""
    with suppress(OSError):  # SQLite says what is wrong with a place where no file can be made
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _on_reader_connect(connection: Any, _record: object) -> None:  # noqa: ANN401 - sqlite3's, or SQLAlchemy's adapter of it
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA query_only = ON")
    cursor.close()

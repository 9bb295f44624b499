"""PostgreSQL: how processes write, and how it is read.

Writing: a single thread of this process has one connection. Every write transaction first takes one lock, for all
processes, until its end. So writes follow one another as in SQLite: ids are in commit order, and a reader that has seen
an event has seen all events before it. Reading: on one of a few threads, in a transaction that sees one state and can't
write.

Commits wait for the disk, and for the standbys that the server is configured to wait for, unless the writer passes
``durable=False``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, RootTransaction, Row
from sqlalchemy.exc import DBAPIError

from rankd.core.errors import RoleLost, Unavailable
from rankd.core.model.server_url import without_password
from rankd.store.engine.close_watch import GRACE_S, Sockets
from rankd.store.engine.connection import ping
from rankd.store.engine.database import Database
from rankd.store.engine.postgres_connection import (
    PLAIN,
    READING,
    SLOW,
    STORAGE_FAILED,
    THEN,
    UNKNOWN_OUTCOME,
    connect,
    engine_of,
    row_at_begin,
    row_at_commit,
    storage_failures,
    unknown_outcome,
)
from rankd.store.engine.postgres_message import Beginning, set_local
from rankd.store.engine.postgres_prepared import is_outdated
from rankd.store.engine.role_lease import RoleLease, boot_clock

T = TypeVar("T")

DATABASE_FILE = "rankd.db"
"""Locks and reports of rankd have names that begin with this, in its directory on this machine."""
WRITE_LOCK = 0x72616E6B64
"""The key of the lock of all write transactions: "rankd"."""
LONG_WAIT_S = 3.0
"""After this many seconds of waiting, :meth:`PostgresDatabase.trouble` reports that another process writes."""
RECENT_FAILURE_S = 30.0
"""A failed write is reported for this many seconds, unless a later one succeeds."""
READERS = 4
LOOKERS = 4
ASK_EVERY_S = 0.2
"""A standby looks at its role this often. It is less than a lease lasts, and little work."""
HOLDER_LOOKS_EVERY_S = 0.5
LEASE_CONNECT_S = 2
_IDLE = "idle_in_transaction_session_timeout"
_BRIEF: dict[str, str | int] = {_IDLE: 2_000}
"""A writer that is paused or cut off must not hold the lock."""
_ALIVE: dict[str, str | int] = {
    "client_connection_check_interval": 1_000,
    "tcp_keepalives_idle": 1,
    "tcp_keepalives_interval": 1,
    "tcp_keepalives_count": 2,
}
"""For a writer that waits for the lock: all services of a head may wait when the head is cut off, and each would get
it. Never for the session, whose connection may be idle while the network is away for some seconds."""
_SLOW: dict[str, str | int] = {_IDLE: 30_000}
"""Instead, for a command or a migration: nobody takes over from it, so it may take its time."""
MAX_GROUP = 1_000
"""About 30 ms, in which no other process can write. Writers take turns, so after each group the prioritizer ranks what
it stored, and groups of a quarter of this size store half as many jobs a second."""
_LOCK = f"SELECT pg_advisory_xact_lock({WRITE_LOCK})"
_KINDS = (_BRIEF, (*map(set_local, _ALIVE.items()), _LOCK)), (_SLOW, (_LOCK,))
_NO_WAIT: dict[str, str | int] = {"synchronous_commit": "off"}
_DURABLE, _DURABLE_SLOW = (Beginning("BEGIN", PLAIN | idle, then) for idle, then in _KINDS)
_QUICK, _QUICK_SLOW = (Beginning("BEGIN", PLAIN | idle | _NO_WAIT, then) for idle, then in _KINDS)


class PostgresDatabase(Database):
    """Implements :class:`.database.Database` for a server.

    ``directory``: where this machine's other files of rankd are. ``own_clock`` measures the leases of roles.
    """

    def __init__(
        self, url: str, directory: Path, *, durable: bool = True, own_clock: Callable[[], float] = boot_clock
    ) -> None:
        self._path = directory / DATABASE_FILE
        self._url = url
        self._shown = without_password(url)
        self._sockets = Sockets()
        self._leases: dict[str, RoleLease] = {}
        self._waits_since: float | None = None
        self._failed: tuple[float, str] | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._own_clock = own_clock
        begin, slow = (_DURABLE, _DURABLE_SLOW) if durable else (_QUICK, _QUICK_SLOW)
        self._writing = engine_of(url, 1, begin, self._sockets, slow=slow)
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._reading = engine_of(url, READERS, READING, self._sockets)
        self._lookers = ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="store-looker")
        self._looking = engine_of(url, LOOKERS, READING, self._sockets)
        self._asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-asker")
        self._asking = engine_of(url, 1, READING, self._sockets)

    @property
    def path(self) -> Path:
        """See :class:`.database.Database`."""
        return self._path

    @property
    def url(self) -> str:
        """See :class:`.database.Database`."""
        return self._url

    async def __aenter__(self) -> Self:
        """Open the database; connections are made when they are first used."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what runs, give roles back, and close all connections. A server that hangs is not waited for."""
        closer = ThreadPoolExecutor(max_workers=1)  # the loop's own threads may all wait for a server that hangs
        await asyncio.get_running_loop().run_in_executor(closer, self._sockets.join, self._close)
        closer.shutdown()

    def _close(self) -> None:
        for threads in (self._readers, self._lookers, self._asker, self._writer):
            threads.shutdown()
        for lease in self._leases.values():
            lease.close(wait_s=GRACE_S)
        for engine in (self._reading, self._looking, self._asking, self._writing):
            engine.dispose()

    async def write(self, work: Callable[[Connection], T], *, role: str | None = None, brief: bool = False) -> T:
        """See :class:`.database.Database`: on the writer thread, under the lock of all writers.

        Raises:
            UnknownOutcome: the server was lost during the commit.
        """
        result, _ = await self._run_on_writer(work, None, role, brief)
        return result

    async def write_observed(
        self, query: str, work: Callable[[Connection, Row[Any]], T], *, role: str | None = None, brief: bool = False
    ) -> tuple[T, Row[Any]]:
        """See :class:`.database.Database`.

        Raises:
            UnknownOutcome: the server was lost during the commit.
        """
        return await self._run_on_writer(lambda c: work(c, row_at_begin(c)), query, role, brief)

    async def _run_on_writer(
        self, work: Callable[[Connection], T], query: str | None, role: str | None, brief: bool
    ) -> tuple[T, Any]:
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._write, work, query, role, brief)

    def _write(
        self, work: Callable[[Connection], T], query: str | None, role: str | None, brief: bool
    ) -> tuple[T, Any]:
        """The result, and the row of the query at the commit."""
        self._waits_since = time.monotonic()
        try:
            with storage_failures("written"), self._writing.connect() as connection:
                transaction = self._begin(connection, query, role, brief=brief)
                self._waits_since = None
                result = work(connection)
                if role is not None:
                    self._lease(role).left_s()
                with unknown_outcome(connection):
                    row = None if query is None else row_at_commit(connection, query)
                    transaction.commit()
        except Unavailable as error:
            if error.code in (STORAGE_FAILED, UNKNOWN_OUTCOME):
                self._failed = (time.monotonic(), error.message)
            raise
        finally:
            self._waits_since = None
        self._failed = None
        return result, row

    def _begin(self, connection: Connection, query: str | None, role: str | None, *, brief: bool) -> RootTransaction:
        """Begin, get the lock, check the role, and run the query, with one message."""
        lease = None if role is None else self._lease(role)
        then = (None if lease is None else lease.check(), query)
        options = {SLOW: lease is None and not brief, THEN: tuple(filter(None, then))}
        with nullcontext() if lease is None else lease.checking():
            return connection.execution_options(**options).begin()

    def trouble(self) -> str | None:
        """See :class:`.database.Database`."""
        now, since, failed = time.monotonic(), self._waits_since, self._failed
        if since is not None and now - since > LONG_WAIT_S:
            return f"no write of the database {self._shown} could begin for {now - since:.0f} s"
        if failed is not None and now - failed[0] < RECENT_FAILURE_S:
            return f"the database {self._shown}: {failed[1]}"
        return None

    async def read(self, work: Callable[[Connection], T]) -> T:
        """See :class:`.database.Database`."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, _read, work, self._reading)

    async def ask(self) -> None:
        """See :class:`.database.Database`: on a thread and a connection that nothing else uses."""
        await asyncio.get_running_loop().run_in_executor(self._asker, _read, ping, self._asking)

    async def read_in_thread(self, work: Callable[[Connection], T]) -> T:
        """See :class:`.database.Database`."""
        return await asyncio.to_thread(_read, work, self._reading)

    async def look(self, work: Callable[[Connection], T]) -> T:
        """See :class:`.database.Database`."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, _read, work, self._looking)

    async def checkpoint(self) -> int:
        """See :class:`.database.Database`: the server does its own."""
        return 0

    def _lease(self, role: str) -> RoleLease:
        if role not in self._leases:
            raise RoleLost(role)
        return self._leases[role]

    @property
    def group_size(self) -> int:
        """See :class:`.database.Database`."""
        return MAX_GROUP

    @property
    def has_standbys(self) -> bool:
        """See :class:`.database.Database`."""
        return True

    async def take_role(self, role: str, now: float) -> int:  # noqa: ARG002 - the server's clock counts
        """See :class:`.database.Database`: waits until the role is free."""
        lease = self._leases[role] = RoleLease(self._connect_lease, role, self._own_clock)
        while not await asyncio.to_thread(lease.try_take):  # noqa: ASYNC110 - the server sends no notice
            await asyncio.sleep(ASK_EVERY_S)
        return lease.epoch

    def _connect_lease(self) -> psycopg.Connection[Any]:
        return self._sockets.note(connect(self._url, connect_timeout_s=LEASE_CONNECT_S))

    async def stay_alive(self, role: str) -> float:
        """See :class:`.database.Database`: the lease's own thread renews it."""
        return min(self._lease(role).left_s(), HOLDER_LOOKS_EVERY_S)

    def has_followed(self, role: str) -> bool:
        """See :class:`.database.Database`."""
        return self._lease(role).has_followed

    def note_ready(self, role: str) -> None:
        """See :class:`.database.Database`."""
        self._lease(role).note_ready()


def _read(work: Callable[[Connection], T], engine: Engine) -> T:
    with storage_failures("read"):
        try:
            return _read_once(work, engine)
        except (DBAPIError, psycopg.Error) as error:
            if not is_outdated(getattr(error, "orig", error)):
                raise
        return _read_once(work, engine)


def _read_once(work: Callable[[Connection], T], engine: Engine) -> T:
    with engine.connect() as connection, connection.begin():
        return work(connection)


def writing_engine(url: str) -> Engine:
    """SQLAlchemy's engine for one connection that writes."""
    return engine_of(url, 1, _DURABLE_SLOW, prepares=False)

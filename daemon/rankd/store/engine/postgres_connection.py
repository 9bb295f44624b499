"""Connections to PostgreSQL by psycopg, for SQLAlchemy and for the command line.

All of them begin their transactions themselves, in the same message as the first lock. A pooler in transaction mode
can stand between: then nothing outlives a transaction on the server. Where no pooler is, settings
(:mod:`.postgres_message`) and prepared statements (:mod:`.postgres_prepared`) do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, cast

import msgspec
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import Connection, Engine, Row, create_engine, event
from sqlalchemy.exc import DBAPIError

from rankd.core.errors import Unavailable, UnknownOutcome
from rankd.core.model.server_url import without_password
from rankd.store.engine.close_watch import Sockets
from rankd.store.engine.postgres_dialect import DRIVER
from rankd.store.engine.postgres_message import Beginning, WorkConnection
from rankd.store.engine.postgres_prepared import (
    FORGET_PLANS,
    is_direct,
    is_outdated,
    is_replan_due,
    may_prepare,
    prepare,
)
from rankd.store.engine.postgres_text import for_postgres

PLAIN: dict[str, str | int] = {"jit": "off", "max_parallel_workers_per_gather": 0}
"""The server takes statements that read the newest rows for large ones: it can't know how few these are. It would
compile them, and start processes for them: 5 to 20 ms each time, for less than 1 ms of work."""
READING = Beginning("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", PLAIN, only_reads=True)
SLOW = "rankd_slow"
"""The option of a connection whose transactions may be idle for long."""
THEN = "rankd_then"
"""The option of a connection with statements that belong to the beginning of its transactions."""
_AT_BEGIN = "rankd_at_begin"
CONNECT_TIMEOUT_S = 10
LOST_AFTER = {"keepalives_idle": 3, "keepalives_interval": 1, "keepalives_count": 5, "tcp_user_timeout": 8_000}
"""A server whose machine does not answer is lost after 8 s. A server that only takes long is waited for."""
POOL_TIMEOUT_S = 600.0
"""A long read waits this long for its turn."""
STORAGE_FAILED, UNKNOWN_OUTCOME = "storage_failed", "unknown_outcome"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
TEMPORARY = (psycopg.OperationalError, psycopg.InterfaceError)
"""What psycopg raises when the server is gone, is full, or shuts down."""
PAUSED = psycopg.errors.IdleInTransactionSessionTimeout
"""What it raises when this process was paused for too long in a transaction. Nothing of it was committed."""


class Cursor(psycopg.RawCursor[Any]):
    """Runs statements with the words of :mod:`.word` and ``?`` for parameters."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:  # noqa: ANN401 - psycopg's
        """See psycopg."""
        if isinstance(query, str) and not may_prepare(query):
            options["prepare"] = False
        text, driver = _prepared(query), self.connection
        if isinstance(driver, WorkConnection) and (begin := driver.take_beginning()):
            with driver.pipeline():
                for statement in begin:
                    driver.cursor().execute(statement)
                return super().execute(text, params or None, **options)
        super().execute(text, params or None, **options)
        if self.nextset():
            self._go_to_rows()
        return self

    def _go_to_rows(self) -> None:
        """Of several statements, the last one that returns rows has the result."""
        self.set_result(0)
        with_rows = [place for place, one in enumerate(self.results()) if one.pgresult and one.pgresult.nfields]
        if with_rows:
            self.set_result(with_rows[-1])

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:  # noqa: ANN401 - psycopg's
        """See psycopg."""
        super().executemany(_prepared(query), params_seq, **options)


def _prepared(query: object) -> Any:  # noqa: ANN401 - psycopg takes several types
    return for_postgres(query) if isinstance(query, str) else query


class _Boolean(Dumper):
    """Booleans are 0 and 1. The server finds the type: its own tables have real booleans."""

    oid = 0

    def dump(self, obj: bool) -> bytes:
        """The digit."""
        return b"1" if obj else b"0"


class _Text(StrDumperUnknown):
    """PostgreSQL stores no NUL character, so U+FFFD takes its place: a request that holds one must not fail others."""

    def dump(self, obj: str) -> Buffer | None:
        """The bytes."""
        return super().dump(obj.replace("\0", REPLACEMENT) if "\0" in obj else obj)


class _Number(Loader):
    """Sums of integers are integers, and other decimal numbers are floats, as in SQLite."""

    def load(self, data: Buffer) -> int | float:
        """The number."""
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class _Json(Loader):
    """Numbers and texts are themselves; lists and objects stay JSON, as in SQLite."""

    def load(self, data: Buffer) -> object:
        """The value."""
        found = msgspec.json.decode(bytes(data))
        if isinstance(found, list | dict):
            return msgspec.json.encode(found).decode()
        return int(found) if isinstance(found, bool) else found


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(bool, _Boolean)
    adapters.register_dumper(str, _Text)
    adapters.register_loader("numeric", _Number)
    adapters.register_loader("jsonb", _Json)
    return adapters


_ADAPTERS = _adapters()


def connect(
    url: str,
    *,
    connect_timeout_s: int = CONNECT_TIMEOUT_S,
    kind: type[psycopg.Connection[Any]] = psycopg.Connection,
) -> psycopg.Connection[Any]:
    """A connection. ``url`` is a PostgreSQL URI, as libpq reads it. Its parameters win over :data:`LOST_AFTER`.

    It prepares no statements.

    Raises:
        psycopg.OperationalError: the server can't be reached, or refuses.
    """
    usual = {"client_encoding": "utf-8", "application_name": "rankd", "connect_timeout": connect_timeout_s}
    given: dict[str, Any] = usual | LOST_AFTER | conninfo_to_dict(url)
    return kind.connect(
        autocommit=True,
        prepare_threshold=None,
        context=_ADAPTERS,
        cursor_factory=Cursor,
        **given,
    )


def open_to_read(url: str) -> psycopg.Connection[Any]:
    """A connection in one read transaction.

    Raises:
        Unavailable: ``no_database``: the server can't be reached, or refuses.
    """
    try:
        connection = connect(url)
        try:
            connection.execute("; ".join(READING.statements(None)))
        except BaseException:
            connection.close()
            raise
    except psycopg.OperationalError as error:
        message = f"the database {without_password(url)} can't be read: {_line(error)}"
        raise Unavailable("no_database", message) from error
    return connection


def _connect_to_work(url: str, settings: Mapping[str, str | int]) -> psycopg.Connection[Any]:
    """A connection that prepares its statements and keeps these settings, if it can."""
    connection = cast("WorkConnection", connect(url, kind=WorkConnection))
    try:
        connection.adapters.register_dumper(int, Int8Dumper)  # one type, whatever the value, and so one statement
        if is_direct(connection):
            prepare(connection)
            connection.hold_session(settings)
    except BaseException:
        connection.close()
        raise
    return connection


def begin_now(connection: Connection) -> None:
    """Begin the transaction at once, for what the driver does by itself."""
    driver = driver_of(connection)
    if isinstance(driver, WorkConnection) and driver.begins_soon:
        connection.exec_driver_sql("SELECT 1")


def driver_of(connection: Connection) -> psycopg.Connection[Any]:
    """The driver's own connection behind one of SQLAlchemy's."""
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def engine_of(
    url: str,
    size: int,
    begin: Beginning,
    sockets: Sockets | None = None,
    *,
    slow: Beginning | None = None,
    prepares: bool = True,
) -> Engine:
    """SQLAlchemy's engine with up to ``size`` connections, made when they are first used, and noted in ``sockets``.

    ``begin``: how each transaction begins; ``slow``: with the option :data:`SLOW`.
    ``prepares``: its statements run often.
    """
    noted = (lambda made: made) if sockets is None else sockets.note
    opened = partial(_connect_to_work, settings=begin.settings) if prepares else connect
    engine = create_engine(
        f"{DRIVER}://",
        creator=lambda: noted(opened(url)),
        pool_size=size,
        max_overflow=0,
        pool_use_lifo=True,  # the connection that was used last
        pool_timeout=POOL_TIMEOUT_S,
    )

    def begin_transaction(connection: Connection) -> None:
        options = connection.get_execution_options()
        how, driver = slow if slow is not None and options.get(SLOW) else begin, driver_of(connection)
        session = driver.session if isinstance(driver, WorkConnection) else None
        statements = [*how.statements(session), *options.get(THEN, ())]
        if is_replan_due(driver):
            statements.append(FORGET_PLANS)
        if isinstance(driver, WorkConnection) and session is not None and how.only_reads:
            driver.read_soon(statements)
        else:
            result = connection.exec_driver_sql("; ".join(statements))
            rows = result.fetchmany(2) if result.returns_rows else []
            result.close()
            connection.info[_AT_BEGIN] = rows[0] if len(rows) == 1 else None

    event.listen(engine, "begin", begin_transaction)
    return engine


def row_at_begin(connection: Connection) -> Row[Any]:
    """The row of the last statement of the beginning of this transaction that returns rows.

    Raises:
        ValueError: it returned none, or several.
    """
    row = connection.info[_AT_BEGIN]
    if row is None:
        raise ValueError("the query at the beginning of a transaction has to return one row")
    return cast("Row[Any]", row)


def row_at_commit(connection: Connection, query: str) -> Row[Any]:
    """Commit; returns the query's row, read just before, with the same message. It has no parameters.

    Raises:
        UnknownOutcome: there was no row.
    """
    row = connection.exec_driver_sql(f"{query}; COMMIT").first()
    if row is None:
        raise UnknownOutcome("the query with the commit returned nothing")
    return row


def is_lock_conflict(error: BaseException) -> bool:
    """Whether a write failed because others used its tables: it was rolled back, and may succeed later."""
    while error.__cause__ is not None:
        error = error.__cause__
    return isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected)


@contextmanager
def storage_failures(done: str) -> Iterator[None]:
    """Turn a lost server into ``storage_failed``. Other errors are raised unchanged.

    ``done`` completes the message: the database could not be *read*.
    """
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        cause = getattr(error, "orig", error)
        if isinstance(cause, (*TEMPORARY, PAUSED)) or is_outdated(cause):
            raise Unavailable(STORAGE_FAILED, f"the database could not be {done}: {_line(cause)}") from error
        raise


@contextmanager
def unknown_outcome(connection: Connection) -> Iterator[None]:
    """For a commit. If it was certainly not committed, the error is raised unchanged.

    Raises:
        UnknownOutcome: the server was lost before its answer, so what was written may be there or not.
    """
    server = driver_of(connection).pgconn
    try:
        yield
    except DBAPIError as error:
        has_failed = server.transaction_status == TransactionStatus.INERROR  # a query before the commit
        if isinstance(error.orig, TEMPORARY) and not has_failed:
            raise UnknownOutcome(_line(error.orig)) from error
        raise


def _line(error: BaseException | None) -> str:
    """A driver's message, which may have several lines, as one."""
    return " ".join(str(error).split())

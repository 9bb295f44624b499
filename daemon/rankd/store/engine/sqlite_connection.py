"""SQLAlchemy's engines for an SQLite file: one that writes, several that only read.

All connections run in WAL mode without automatic checkpoints, and begin their transactions themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from rankd.core.errors import Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.plan import SqliteCompiler

BUSY_TIMEOUT_MS = 30_000
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
"""SQLite's codes for failures that may be temporary."""
_ARGUMENTS = {"check_same_thread": False, "isolation_level": None}


def writing_engine(path: Path, *, durable: bool) -> Engine:
    """One connection, for one thread at a time. Its transactions are ``BEGIN IMMEDIATE``."""

    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = OFF")

    engine = _engine(path, poolclass=StaticPool)
    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def reading_engine(path: Path, size: int) -> Engine:
    """Up to ``size`` connections that stay open. They cannot write."""
    # last in, first out: the connection that was used last still has its pages in the cache
    engine = _engine(path, pool_size=size, pool_use_lifo=True)
    event.listen(engine, "connect", _on_reader_connect)
    return engine


@contextmanager
def storage_failures(done: str) -> Iterator[None]:
    """Turn errors of a full disk or a failing device into ``storage_failed``. Other errors are raised unchanged.

    ``done`` completes the message: the database could not be *read*.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = getattr(error, "orig", error)
        if isinstance(cause, OSError) or getattr(cause, "sqlite_errorcode", 0) & 0xFF in STORAGE_CODES:
            raise Unavailable("storage_failed", f"the database could not be {done}: {cause}") from error
        raise


def _engine(path: Path, **pool: Any) -> Engine:  # noqa: ANN401 - SQLAlchemy's options of a pool
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, module=sqlite3, connect_args=_ARGUMENTS, **pool)
    engine.dialect.statement_compiler = SqliteCompiler
    return engine


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _on_reader_connect(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA query_only = ON")

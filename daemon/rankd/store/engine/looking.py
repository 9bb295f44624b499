"""One read transaction of a command, for what only services read otherwise: with SQLAlchemy's connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from rankd.store.engine.sqlite_connection import reading_engine, storage_failures


@contextmanager
def looking(database: Path | str) -> Iterator[Connection]:
    """A connection that can't write, to a file or to the server that a URL names. It sees one state.

    Raises:
        Unavailable: ``storage_failed``: the database can't be read.
    """
    with _server(database) if isinstance(database, str) else _file(database) as connection:
        yield connection


@contextmanager
def _file(path: Path) -> Iterator[Connection]:
    engine = reading_engine(path, 1)
    try:
        with storage_failures("read"), engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection
    finally:
        engine.dispose()


@contextmanager
def _server(url: str) -> Iterator[Connection]:
    from rankd.store.engine import postgres_connection as server  # noqa: PLC0415 - psycopg is optional

    engine = server.engine_of(url, 1, server.READING, prepares=False)
    try:
        with server.storage_failures("read"), engine.connect() as connection, connection.begin():
            yield connection
    finally:
        engine.dispose()

"""Reading: a connection that can't write, and rows as dictionaries with decoded JSON.

Uses only the standard library and msgspec, because SQLAlchemy takes 0.6 s to import. Works with any DB-API connection
with ``?`` parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

import msgspec

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.driver import sqlite3

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Row = dict[str, Any]

ReadConnection = sqlite3.Connection
"""The type that :func:`open_for_reading` returns."""
ReadError = sqlite3.Error
"""The error that such a connection raises."""

BUSY_TIMEOUT_S = 5.0

_SQLITE_VIEW = "SELECT 1 AS one FROM sqlite_master WHERE type = 'view' AND name = ?"
_POSTGRES_VIEW = "SELECT 1 AS one FROM pg_catalog.pg_class WHERE relkind = 'v' AND relname = ?"
_NO_SCHEMA, _OUT_OF_RANGE = ("42P01", "42703"), "22003"
"""PostgreSQL's codes: an unknown table or column, and a number that does not fit."""
_TOO_LARGE = "a number in the request does not fit into 64 bits"

_JSON = frozenset(
    {
        "resources",
        "depends_on",
        "reason_fact",
        "reserved_nodes",
        "nodelist",
        "detail",
        "durations",
        "failures",
        "weights",
        "pending",
        "allocated",
        "capacity",
        "max",
        "guaranteed",
        "access",
    }
)

_BOOLEANS = frozenset({"held", "exclusive", "requeue", "cancel_if_unmet", "is_default", "global_default"})


class Cursor(Protocol):
    """The used part of a DB-API cursor."""

    @property
    def description(self) -> Any:  # noqa: ANN401 - DB-API leaves it open
        """The columns, each a sequence that starts with the name."""

    def execute(self, sql: str, parameters: Any = ..., /) -> object:  # noqa: ANN401 - drivers differ
        """Run a statement."""

    def fetchall(self) -> Sequence[Any]:
        """All rows."""

    def close(self) -> None:
        """Free the cursor."""


class Reader(Protocol):
    """The used part of a DB-API connection."""

    def cursor(self) -> Cursor:
        """A new cursor."""


def open_for_reading(database: Path | str) -> ReadConnection:
    """A connection that can't write, to a file or to the server that a URL names.

    Its first query begins one read transaction for all.

    Raises:
        Unavailable: ``no_database``: the file can't be opened, or the server does not answer.
    """
    return open_server(database) if isinstance(database, str) else _open_file(database)


def open_server(url: str) -> ReadConnection:
    """A connection to a PostgreSQL server that can't write."""
    from rankd.store.engine.postgres_connection import open_to_read  # noqa: PLC0415 - psycopg is optional

    return cast("ReadConnection", open_to_read(url))


def _open_file(path: Path) -> ReadConnection:
    # Not mode=ro: in WAL mode, reading a database that no process uses has to create its -shm file again.
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
    except sqlite3.Error as error:
        raise Unavailable("no_database", f"the database {path} can't be read: {error}") from error
    return connection


def fetch(connection: Reader, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
    """The rows of a query as dictionaries, with JSON and booleans decoded."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql, tuple(parameters))
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    except OverflowError:
        raise Refused("bad_field", _TOO_LARGE) from None
    except Exception as error:
        raise _unreadable(error) from error
    finally:
        cursor.close()
    return _decoded(names, rows)


def has_view(connection: Reader, name: str) -> bool:
    """Whether the database has a view of this name."""
    query = _POSTGRES_VIEW if is_server(connection) else _SQLITE_VIEW
    return bool(fetch(connection, query, [name]))


def is_server(connection: Reader) -> bool:
    """Whether the connection is one of psycopg's, itself or behind one of SQLAlchemy's."""
    return hasattr(connection, "pgconn")


def tuples(connection: Reader, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
    """As :func:`fetch`, but as tuples without names; also for SQLAlchemy's connections."""
    return [tuple(row.values()) for row in fetch(connection, sql, parameters)]


def _unreadable(error: Exception) -> Exception:
    """What a driver's error means; other errors are returned unchanged."""
    state = getattr(error, "sqlstate", None)
    if not isinstance(error, sqlite3.DatabaseError) and not hasattr(error, "sqlstate"):
        return error
    text = " ".join(str(error).split())
    if state in _NO_SCHEMA or "no such table" in text or "no such column" in text:
        message = f"this database does not have the rankd tables of this version ({text}); run `rankd db upgrade`"
        return Unavailable("no_schema", message)
    if state == _OUT_OF_RANGE:
        return Refused("bad_field", _TOO_LARGE)
    return Unavailable("database_unreadable", f"the database can't be read: {text}")


def _decoded(names: list[str], rows: Iterable[Sequence[Any]]) -> list[Row]:
    records = [dict(zip(names, row, strict=True)) for row in rows]
    for name in names:
        if name in _JSON | _BOOLEANS:
            for record in records:
                record[name] = _value(name, record[name])
    return records


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - any column
    if name in _BOOLEANS:
        return None if value is None else bool(value)
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:  # a text that only looks like JSON
        return value
    return decoded

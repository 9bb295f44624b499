"""Reading: a connection that can't write, and rows as dictionaries with decoded JSON.

Uses only the standard library and msgspec, because SQLAlchemy takes 0.6 s to import. Works with any DB-API connection
with ``?`` parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
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


def open_for_reading(path: Path) -> ReadConnection:
    """A connection that can't write. Its first query begins one read transaction for all.

    Raises:
        Unavailable: ``no_database``: the file can't be opened.
    """
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
    except sqlite3.DatabaseError as error:
        raise _unreadable(error) from error
    except OverflowError:
        raise Refused("bad_field", "a number in the request does not fit into 64 bits") from None
    finally:
        cursor.close()
    return _decoded(names, rows)


def has_view(connection: Reader, name: str) -> bool:
    """Whether the database has a view of this name."""
    return bool(fetch(connection, "SELECT 1 AS one FROM sqlite_master WHERE type = 'view' AND name = ?", [name]))


def tuples(connection: Reader, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
    """As :func:`fetch`, but as tuples without names; also for SQLAlchemy's connections."""
    return [tuple(row.values()) for row in fetch(connection, sql, parameters)]


def _unreadable(error: sqlite3.DatabaseError) -> Unavailable:
    if "no such table" in str(error) or "no such column" in str(error):
        message = f"this database does not have the rankd tables of this version ({error}); run `rankd db upgrade`"
        return Unavailable("no_schema", message)
    return Unavailable("database_unreadable", f"the database can't be read: {error}")


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

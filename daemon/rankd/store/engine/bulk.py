"""Many rows at once: insert them, change them, or read them batch by batch.

The rest of the store calls these functions. Each database needs its own statements for them. So each database has
an implementation of :class:`Bulk`, found by the connection's dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, Table

from rankd.store.engine import sqlite_bulk
from rankd.store.engine.row_part import FEW

BATCH = 10_000
"""Rows that :func:`stream` yields together."""


class NewRows(NamedTuple):
    """Rows for a table. Each has the values of these columns."""

    table: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


class Bulk(Protocol):
    """The operations of a database on many rows. The functions of this module describe them."""

    def bulk_insert(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`bulk_insert`."""

    def bulk_replace(self, connection: Connection, table: Table, rows: Sequence[Sequence[object]]) -> None:
        """See :func:`bulk_replace`."""

    def replace_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`replace_numbered`."""

    def change_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`change_numbered`."""

    def bulk_update(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`bulk_update`."""

    def stream(
        self, connection: Connection, sql: str, parameters: Sequence[object], batch: int
    ) -> Iterator[Sequence[Any]]:
        """See :func:`stream`."""

    def unread(self, connection: Connection) -> AbstractContextManager[object]:
        """See :func:`unread`."""


@cache
def _bulk(dialect: str) -> Bulk:
    if dialect == "sqlite":
        return sqlite_bulk.SqliteBulk()
    from rankd.store.engine.postgres_bulk import PostgresBulk  # noqa: PLC0415 - it needs psycopg, which is optional

    return PostgresBulk()


def bulk_insert(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Insert rows in their order. Each row has the values of these columns."""
    _bulk(connection.dialect.name).bulk_insert(connection, table, columns, rows)


def insert_all(connection: Connection, *new: NewRows) -> None:
    """Insert rows into several tables. If they are few, a server gets them in one message."""
    with unread_if_few(connection, max(len(some.rows) for some in new)):
        for some in new:
            bulk_insert(connection, *some)


def bulk_replace(connection: Connection, table: Table, rows: Sequence[Sequence[object]]) -> None:
    """Insert whole rows, each with all columns in the table's order. Rows with the same keys are replaced."""
    _bulk(connection.dialect.name).bulk_replace(connection, table, rows)


def replace_numbered(connection: Connection, table: Table, first: int, values: str) -> None:
    """Number values from ``first`` on: insert the rows (first, value), (first + 1, value) and so on.

    Rows with the same numbers are replaced. ``values`` is a JSON list, so that it is encoded before the transaction:
    10,000 rows take 1.3 ms; with :func:`bulk_replace` they take 2.8 ms.
    """
    _bulk(connection.dialect.name).replace_numbered(connection, table, first, values)


def change_numbered(connection: Connection, table: Table, first: int, values: str) -> None:
    """As :func:`replace_numbered`, for numbers that the table has."""
    _bulk(connection.dialect.name).change_numbered(connection, table, first, values)


def bulk_update(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Set these columns. Each row has their values, followed by the id of the record; each id occurs once."""
    _bulk(connection.dialect.name).bulk_update(connection, table, columns, rows)


def stream(
    connection: Connection, sql: str, parameters: Sequence[object] = (), batch: int = BATCH
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a query in lists of up to ``batch`` plain tuples, as fast as the driver reads them.

    The query runs in the transaction of ``connection``, so it sees the same state as all others there.
    """
    return _bulk(connection.dialect.name).stream(connection, sql, parameters, batch)


def unread_if_few(connection: Connection, number: int) -> AbstractContextManager[object]:
    """As :func:`unread` while this many new rows are inserted, if they are so few that a server gets no ``COPY``."""
    return unread(connection) if number <= FEW else nullcontext()


def unread(connection: Connection) -> AbstractContextManager[object]:
    """While it lasts, only statements run that return nothing. A server gets them without an answer to each.

    The first error is raised at its end. SQLAlchemy would read no rows.
    """
    return _bulk(connection.dialect.name).unread(connection)

"""Many rows at once in SQLite, with few statements.

The driver's ``executemany`` releases the interpreter's lock for every row, and gets it back only once another thread
releases it. Besides a busy event loop a row then takes 200 us, of which SQLite needs ten. Rows of SQLAlchemy take
three times as long to read as the driver's own rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Table

from rankd.store.engine.row_part import row_parts

AT_ONCE = (250, 50, 10, 1)
"""Rows per statement. With these few sizes, the statements stay prepared in the driver."""


class SqliteBulk:
    """Implements :class:`.bulk.Bulk`."""

    def bulk_insert(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`.bulk.bulk_insert`."""
        _insert(connection, _into(table, tuple(columns)), rows)

    def bulk_replace(self, connection: Connection, table: Table, rows: Sequence[Sequence[object]]) -> None:
        """See :func:`.bulk.bulk_replace`."""
        _insert(connection, f"INSERT OR REPLACE INTO {table.name}", rows)

    def replace_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`.bulk.replace_numbered`."""
        number, value = (column.name for column in table.columns)
        into = f"INSERT OR REPLACE INTO {table.name} ({number}, {value})"
        connection.exec_driver_sql(f"{into} SELECT key + ?, value FROM json_each(?)", (first, values))

    def change_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`.bulk.change_numbered`."""
        self.replace_numbered(connection, table, first, values)

    def bulk_update(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`.bulk.bulk_update`."""
        for some in row_parts(rows, AT_ONCE):
            statement = _update(table, tuple(columns), len(some))
            connection.exec_driver_sql(statement, tuple(chain.from_iterable(some)))

    def unread(self, connection: Connection) -> AbstractContextManager[object]:  # noqa: ARG002 - it is at once done
        """See :func:`.bulk.unread`."""
        return nullcontext()

    def stream(
        self, connection: Connection, sql: str, parameters: Sequence[object], batch: int
    ) -> Iterator[Sequence[Any]]:
        """See :func:`.bulk.stream`."""
        cursor = connection.connection.cursor()
        try:
            cursor.execute(sql, parameters)
            while rows := cursor.fetchmany(batch):
                yield rows
        finally:
            cursor.close()


def _insert(connection: Connection, into: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows. ``into`` is the statement up to its values."""
    for some in row_parts(rows, AT_ONCE):
        statement = f"{into} {_values(len(some[0]), len(some))}"
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(some)))


@lru_cache(maxsize=128)
def _into(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names})"


@lru_cache(maxsize=128)
def _values(n_columns: int, n_rows: int) -> str:
    row = ", ".join("?" * n_columns)
    return f"VALUES {', '.join([f'({row})'] * n_rows)}"


@lru_cache(maxsize=128)
def _update(table: str, columns: tuple[str, ...], n_rows: int) -> str:
    """The UPDATE statement. SQLite names the columns of VALUES column1, column2 and so on."""
    if n_rows == 1:
        assignments = ", ".join(f'"{name}" = ?' for name in columns)
        return f"UPDATE {table} SET {assignments} WHERE id = ?"
    changes = ", ".join(f'"{name}" = v.column{place}' for place, name in enumerate(columns, start=1))
    new = _values(len(columns) + 1, n_rows)
    return f"UPDATE {table} SET {changes} FROM ({new}) AS v WHERE {table}.id = v.column{len(columns) + 1}"

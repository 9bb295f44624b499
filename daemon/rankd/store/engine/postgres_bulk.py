"""Many rows at once in PostgreSQL: by ``COPY``, or as one parameter per column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import Any

from psycopg.pq import PipelineStatus
from sqlalchemy import Connection, Table

from rankd.store.engine.postgres_connection import begin_now, driver_of
from rankd.store.engine.postgres_message import answer, at_once
from rankd.store.engine.row_part import FEW, row_parts

_ID = "bigint"
_NUMBERED = "SELECT key + CAST(? AS BIGINT) AS number, value FROM rankd_numbers(?) v"
AT_ONCE = (128, 32, 8, 4, 2, 1)
"""Rows per statement that replaces some. With these few sizes, the statements stay prepared."""


class PostgresBulk:
    """Implements :class:`.bulk.Bulk`."""

    def bulk_insert(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`.bulk.bulk_insert`."""
        if len(rows) <= FEW:
            for row in rows:
                connection.exec_driver_sql(_insert(table, tuple(columns)), tuple(row))
        else:
            _copy(connection, table, columns, rows)

    def bulk_replace(self, connection: Connection, table: Table, rows: Sequence[Sequence[object]]) -> None:
        """See :func:`.bulk.bulk_replace`: all in one message, for which others wait less than for a ``COPY``."""
        if rows:
            columns = tuple(column.name for column in table.columns)
            key = tuple(column.name for column in table.primary_key)
            with self.unread(connection), driver_of(connection).cursor() as cursor:
                for some in row_parts(rows, AT_ONCE):
                    cursor.execute(_replace(table.name, columns, key, len(some)), tuple(chain.from_iterable(some)))

    def replace_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`.bulk.replace_numbered`."""
        number, value = (column.name for column in table.columns)
        changes = f"ON CONFLICT ({number}) DO UPDATE SET {value} = excluded.{value}"
        statement = f"INSERT INTO {table.name} ({number}, {value}) {_NUMBERED} {changes}"
        connection.exec_driver_sql(statement, (first, values))

    def change_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`.bulk.change_numbered`: an update of the rows that differ. To insert conflicts takes longer."""
        number, value = (column.name for column in table.columns)
        differs = f"{table.name}.{number} = new.number AND {table.name}.{value} <> new.value"
        statement = f"UPDATE {table.name} SET {value} = new.value FROM ({_NUMBERED}) new WHERE {differs}"
        connection.exec_driver_sql(statement, (first, values))

    def bulk_update(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`.bulk.bulk_update`."""
        if rows:
            types = tuple(_types(connection, table)[name] for name in columns)
            connection.exec_driver_sql(_update(table, tuple(columns), types), _lists((*types, _ID), rows))

    def unread(self, connection: Connection) -> AbstractContextManager[object]:
        """See :func:`.bulk.unread`. A pipeline in another one would wait for the answers so far."""
        driver = driver_of(connection)
        is_within = driver.pgconn.pipeline_status != PipelineStatus.OFF
        return nullcontext() if is_within else at_once(driver)

    def stream(
        self, connection: Connection, sql: str, parameters: Sequence[object], batch: int
    ) -> Iterator[Sequence[Any]]:
        """See :func:`.bulk.stream`."""
        begin_now(connection)
        cursor = driver_of(connection).cursor()
        try:
            cursor.execute(sql, parameters)
            while rows := cursor.fetchmany(batch):
                yield rows
        finally:
            cursor.close()


def _same(value: object) -> object:
    return value


def _float(value: Any) -> float | None:  # noqa: ANN401 - any number
    return None if value is None else float(value)


def _int(value: Any) -> int | None:  # noqa: ANN401 - any number
    return None if value is None else int(value)


_STORED = {"double precision": _float, "bigint": _int, "smallint": _int}
"""What a list for a column of this type contains. The driver looks at the values to find the type of a list."""


def _lists(types: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[list[object], ...]:
    """The values by column, as columns of these types contain them."""
    of_columns = zip(types, zip(*rows, strict=True), strict=True)
    return tuple(list(map(_STORED.get(kind, _same), values)) for kind, values in of_columns)


def _copy(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    names = ", ".join(f'"{name}"' for name in columns)
    with driver_of(connection).cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


@lru_cache(maxsize=128)
def _insert(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"


@lru_cache(maxsize=128)
def _replace(table: str, columns: tuple[str, ...], key: tuple[str, ...], number: int) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join([f"({', '.join('?' * len(columns))})"] * number)
    return f"INSERT INTO {table} ({names}) VALUES {values} {_instead(columns, key)}"


def _instead(columns: Sequence[str], key: Sequence[str]) -> str:
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"


def _arrays(types: Sequence[str]) -> str:
    """One parameter per column."""
    return ", ".join(f"CAST(? AS {kind}[])" for kind in types)


@lru_cache(maxsize=128)
def _update(table: str, columns: tuple[str, ...], types: tuple[str, ...]) -> str:
    changes = ", ".join(f'"{name}" = v.c{place}' for place, name in enumerate(columns))
    names = ", ".join(f"c{place}" for place in range(len(columns) + 1))
    values = f"unnest({_arrays((*types, _ID))}) AS v ({names})"
    return f"UPDATE {table} SET {changes} FROM {values} WHERE {table}.id = v.c{len(columns)}"


_COLUMN_TYPES = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
WHERE attrelid = CAST(? AS regclass) AND attnum > 0"""
_TYPES: dict[str, dict[str, str]] = {}


def _types(connection: Connection, table: str) -> dict[str, str]:
    """The types of a table's columns by name, looked up once."""
    if table not in _TYPES:
        _TYPES[table] = dict(answer(driver_of(connection), _COLUMN_TYPES, (table,)))
    return _TYPES[table]

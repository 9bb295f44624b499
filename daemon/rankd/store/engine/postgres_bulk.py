"""Many rows at once in PostgreSQL: by ``COPY``, or as one parameter per column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from sqlalchemy import Connection, Table

from rankd.store.engine.postgres_connection import driver_of

_ID = "bigint"
FEW = 8
"""Up to this many rows are inserted by ``INSERT``, which takes fewer messages."""


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

    def bulk_replace(
        self, connection: Connection, table: Table, rows: Sequence[Sequence[object]], *, are_new: bool
    ) -> None:
        """See :func:`.bulk.bulk_replace`."""
        if not rows:
            return
        columns = tuple(column.name for column in table.columns)
        key = tuple(column.name for column in table.primary_key)
        if len(rows) > FEW:
            if are_new and _is_copied(connection, table.name, columns, rows):
                return
            places = [columns.index(name) for name in key]
            wanted = [[row[place] for row in rows] for place in places]
            connection.exec_driver_sql(_delete(table, key), tuple(wanted))
            _copy(connection, table.name, columns, rows)
            return
        for row in rows:
            connection.exec_driver_sql(_replace(table.name, columns, key), tuple(row))

    def replace_numbered(self, connection: Connection, table: Table, first: int, values: str) -> None:
        """See :func:`.bulk.replace_numbered`."""
        number, value = (column.name for column in table.columns)
        new = "SELECT key + CAST(? AS BIGINT), value FROM rankd_numbers(?) v"
        changes = f"ON CONFLICT ({number}) DO UPDATE SET {value} = excluded.{value}"
        statement = f"INSERT INTO {table.name} ({number}, {value}) {new} {changes}"
        connection.exec_driver_sql(statement, (first, values))

    def bulk_update(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """See :func:`.bulk.bulk_update`."""
        if rows:
            types = [_types(connection, table)[name] for name in columns]
            of_columns = zip((*types, _ID), zip(*rows, strict=True), strict=True)
            stored = [list(map(_STORED.get(kind, _same), values)) for kind, values in of_columns]
            connection.exec_driver_sql(_update(table, tuple(columns), tuple(types)), tuple(stored))

    def stream(
        self, connection: Connection, sql: str, parameters: Sequence[object], batch: int
    ) -> Iterator[Sequence[Any]]:
        """See :func:`.bulk.stream`."""
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


def _is_copied(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Copy the rows if there are none with the same keys; returns whether that was so."""
    try:
        with driver_of(connection).transaction():  # a savepoint
            _copy(connection, table, columns, rows)
    except psycopg.errors.UniqueViolation:
        return False
    return True


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
def _replace(table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in key)
    action = f"UPDATE SET {changes}" if changes else "NOTHING"
    return f"{_insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO {action}"


@lru_cache(maxsize=128)
def _delete(table: Table, key: tuple[str, ...]) -> str:
    kinds = ("TEXT" if table.columns[name].type.python_type is str else "BIGINT" for name in key)
    arrays = ", ".join(f"CAST(? AS {kind}[])" for kind in kinds)
    names = ", ".join(f"c{place}" for place in range(len(key)))
    return f"DELETE FROM {table.name} WHERE ({', '.join(key)}) IN (SELECT {names} FROM unnest({arrays}) AS v ({names}))"


@lru_cache(maxsize=128)
def _update(table: str, columns: tuple[str, ...], types: tuple[str, ...]) -> str:
    changes = ", ".join(f'"{name}" = v.c{place}' for place, name in enumerate(columns))
    arrays = ", ".join(f"CAST(? AS {kind}[])" for kind in (*types, _ID))
    names = ", ".join(f"c{place}" for place in range(len(columns) + 1))
    return f"UPDATE {table} SET {changes} FROM unnest({arrays}) AS v ({names}) WHERE {table}.id = v.c{len(columns)}"


_COLUMN_TYPES = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
WHERE attrelid = CAST(? AS regclass) AND attnum > 0"""
_TYPES: dict[str, dict[str, str]] = {}


def _types(connection: Connection, table: str) -> dict[str, str]:
    """The types of a table's columns by name, looked up once."""
    if table not in _TYPES:
        _TYPES[table] = dict(map(tuple, connection.exec_driver_sql(_COLUMN_TYPES, (table,))))
    return _TYPES[table]

"""The largest id that a table ever assigned. Ids are dense and in commit order, and are never reused.

The statement is text, because each database has a different one. SQLite counts in a separate table. PostgreSQL does so
for deleted rows only (:mod:`.postgres_function`).
"""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import Connection

_SQLITE = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0)"
_POSTGRESQL = "greatest((SELECT id FROM last_ids WHERE name = '{table}'), (SELECT max(id) FROM {table}), 0)"
_VERSION = "coalesce((SELECT number FROM versions WHERE name = '{version}'), 0)"


def last_id(connection: Connection, table: str) -> int:
    """The largest id that the table ever assigned; 0 before the first."""
    return last_ids(connection, table)[0]


def last_ids(connection: Connection, *tables: str, version: str | None = None) -> list[int]:
    """The largest ids that these tables ever assigned; 0 before the first. Then the number of this ``version``.

    One statement, because a server takes longer to answer than to look.
    """
    statement = _statement(connection.dialect.name, tables, version)
    return [int(number) for number in connection.exec_driver_sql(statement).one()]


@lru_cache(maxsize=64)
def _statement(dialect: str, tables: tuple[str, ...], version: str | None) -> str:
    text = _SQLITE if dialect == "sqlite" else _POSTGRESQL
    numbers = [text.format(table=table) for table in tables]
    if version is not None:
        numbers.append(_VERSION.format(version=version))
    return f"SELECT {', '.join(numbers)}"


_FORGET_SQLITE = "DELETE FROM sqlite_sequence WHERE name = ?1 AND seq < ?2"
_KEEP_SQLITE = """INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)"""
_KEEP_POSTGRESQL = """INSERT INTO last_ids AS l (name, id) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET id = greatest(l.id, excluded.id)"""


def set_last_id(connection: Connection, table: str, newest: int) -> None:
    """Let the table assign no id up to ``newest`` again. A larger one that it has assigned stays."""
    if newest and connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_FORGET_SQLITE, (table, newest))
        connection.exec_driver_sql(_KEEP_SQLITE, (table, newest))
    elif newest:
        connection.exec_driver_sql(_KEEP_POSTGRESQL, (table, newest))

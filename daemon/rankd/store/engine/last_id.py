"""The largest id that a table ever assigned. Ids are dense and in commit order, and are never reused.

The statement is text, because each database has a different one. SQLite counts in a separate table. PostgreSQL does so
for deleted rows only (:mod:`.postgres_function`).
"""

from __future__ import annotations

from sqlalchemy import Connection

_SQLITE = "SELECT seq FROM sqlite_sequence WHERE name = ?"
_POSTGRESQL = "SELECT greatest((SELECT id FROM last_ids WHERE name = ?), (SELECT max(id) FROM {table}), 0)"


def last_id(connection: Connection, table: str) -> int:
    """The largest id that the table ever assigned; 0 before the first."""
    statement = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL.format(table=table)
    row = connection.exec_driver_sql(statement, (table,)).first()
    return int(row[0]) if row else 0


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

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

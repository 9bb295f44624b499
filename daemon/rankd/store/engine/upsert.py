"""Insert rows, or change existing ones, with one statement in the dialect of each database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import sqlite

_INSERT = {"sqlite": sqlite.insert}


def upsert(
    connection: Connection,
    table: Table,
    key: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    kept: Collection[str] = (),
) -> None:
    """Insert rows that all have the same columns. Does nothing without rows.

    If the table has a row with the same ``key``, it gets the other values of the new row, except in the columns
    ``kept``. If there is no other column, the row stays unchanged.
    """
    if not rows:
        return
    statement = _statement(connection.dialect.name, table, tuple(key), tuple(rows[0]), frozenset(kept))
    connection.execute(statement, rows[0] if len(rows) == 1 else list(rows))


@lru_cache(maxsize=64)
def _statement(
    dialect: str, table: Table, key: Sequence[str], columns: Sequence[str], kept: Collection[str]
) -> Executable:
    """The statement; building it takes longer than running it."""
    new = _INSERT[dialect](table)
    changed = {name: new.excluded[name] for name in columns if name not in {*key, *kept}}
    if changed:
        return new.on_conflict_do_update(index_elements=key, set_=changed)
    return new.on_conflict_do_nothing(index_elements=key)

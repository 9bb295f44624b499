"""Insert rows, or change existing ones, with one statement in the dialect of each database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import Connection, Executable, Select, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERT: dict[str, Callable[[Table], Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


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
        return cast("Executable", new.on_conflict_do_update(index_elements=key, set_=changed))
    return cast("Executable", new.on_conflict_do_nothing(index_elements=key))


def insert_missing(connection: Connection, table: Table, query: Select[Any], parameters: Mapping[str, object]) -> None:
    """Insert whole rows from a query, which gives the columns in the table's order. Rows with known keys are left out.

    The query has a condition; without one, SQLite takes ``ON CONFLICT`` for that of a join.
    """
    new = _INSERT[connection.dialect.name](table).from_select(list(table.columns), query)
    connection.execute(new.on_conflict_do_nothing(), parameters)


def add_sums(connection: Connection, table: Table, query: Select[Any], parameters: Mapping[str, object]) -> None:
    """As :func:`insert_missing`, but the values of rows with known primary keys are added to those that are there."""
    new = _INSERT[connection.dialect.name](table).from_select(list(table.columns), query)
    sums = {column.name: column + new.excluded[column.name] for column in table.columns if not column.primary_key}
    key = [column.name for column in table.primary_key]
    connection.execute(new.on_conflict_do_update(index_elements=key, set_=sums), parameters)

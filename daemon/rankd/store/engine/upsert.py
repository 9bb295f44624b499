"""Insert rows, or change existing ones, with one statement in the dialect of each database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, Table
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
    new = _INSERT[connection.dialect.name](table)
    changed = {name: new.excluded[name] for name in rows[0] if name not in {*key, *kept}}
    if changed:
        connection.execute(new.on_conflict_do_update(index_elements=key, set_=changed), list(rows))
    else:
        connection.execute(new.on_conflict_do_nothing(index_elements=key), list(rows))

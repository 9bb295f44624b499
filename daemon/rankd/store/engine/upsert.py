"""Insert rows, or change those that are there: one statement, which each database writes in its own dialect."""

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
    """Insert rows with the same columns each. Does nothing without rows.

    A row whose ``key`` is in the table gets the other values of the new row, except in the columns ``kept``. If there
    is no such column, the row stays as it is.
    """
    if not rows:
        return
    new = _INSERT[connection.dialect.name](table)
    changed = {name: new.excluded[name] for name in rows[0] if name not in {*key, *kept}}
    if changed:
        connection.execute(new.on_conflict_do_update(index_elements=key, set_=changed), list(rows))
    else:
        connection.execute(new.on_conflict_do_nothing(index_elements=key), list(rows))

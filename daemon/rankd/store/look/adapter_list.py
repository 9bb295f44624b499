"""The adapters, their last readings, and their failures: rows of the view ``adapter``."""

from __future__ import annotations

from sqlalchemy import ColumnClause, column, select, table

from rankd.store.engine.connection import Connection

_COLUMNS = ("name", "input", "plugin", "state", "rows", "read_at", "tried_at", "failures", "message")


def adapters(connection: Connection) -> list[dict[str, object]]:
    """The adapters by name."""
    columns: list[ColumnClause[object]] = [column(name) for name in _COLUMNS]
    query = select(*columns).select_from(table("adapter")).order_by(column("name"))
    return [dict(row) for row in connection.execute(query).mappings()]

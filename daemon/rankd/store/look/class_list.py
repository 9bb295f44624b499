"""Priority classes.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import msgspec

from rankd.core.model.access import AccessList
from rankd.store.engine.reading import Reader, Row, fetch


def classes(connection: Reader) -> list[Row]:
    """The priority classes by name, including the built-in ones."""
    rows = fetch(connection, "SELECT * FROM priority_class ORDER BY name")
    for row in rows:
        if row["access"] is None:
            del row["access"]
    return rows


def class_access(connection: Reader) -> dict[str, AccessList]:
    """The access lists that were given with classes, by name of the class."""
    rows = fetch(connection, "SELECT name, access FROM priority_class WHERE access IS NOT NULL")
    return {row["name"]: msgspec.convert(row["access"], AccessList) for row in rows}

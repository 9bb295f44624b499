"""Priority classes.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch


def classes(connection: Reader) -> list[Row]:
    """The priority classes by name, including the built-in ones."""
    return fetch(connection, "SELECT * FROM priority_class ORDER BY name")

"""Priority classes.

Text: the command line uses it and must not import SQLAlchemy (0.6 s; a command starts in under 0.15 s).
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch


def classes(connection: Reader) -> list[Row]:
    """The priority classes by name, with the built-in ones."""
    return fetch(connection, "SELECT * FROM priority_class ORDER BY name")

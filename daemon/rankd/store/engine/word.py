"""Words of SQL in which databases differ, for statements that are text.

:mod:`.listed` and :mod:`.plan` have the same for SQLAlchemy. This module imports nothing, because the command line runs
such statements without SQLAlchemy.
"""

LISTED = "json_each(?)"
"""The JSON list in a parameter, as a table with the columns ``key`` (its place, from 0) and ``value``."""

IN_LIST = f"IN (SELECT value FROM {LISTED})"
"""Behind a column: whether its value is in the JSON list in a parameter."""

JOIN_IN_ORDER = "CROSS JOIN"
"""A join that reads the left side, and for each of its rows the right side. SQLite may turn other joins round."""


def unindexed(column: str) -> str:
    """A column in a condition for which no index is to be used."""
    return f"+{column}"


def elements(column: str, name: str) -> str:
    """The JSON list or object in a column, as a table ``name`` with the columns ``key`` and ``value``."""
    return f"json_each({column}) {name}"


def read_by(index: str) -> str:
    """Behind a table in ``FROM``: the table is read by this index."""
    return f"INDEXED BY {index}"

"""How the database has to carry out a statement, where its own choice could take long.

Each database has its own words for this. In a database without such words, the statement means the same without them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, FromClause, Join, Select, and_, literal_column
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler


class _InOrder(Join):
    """A join whose left side is read first."""

    inherit_cache = True


@compiles(_InOrder, "sqlite")
def _sqlite_in_order(
    join: _InOrder,
    compiler: SQLCompiler,
    *,
    asfrom: bool = False,  # noqa: ARG001 - both sides are always part of FROM
    from_linter: object = None,  # noqa: ARG001 - it looks for tables that no condition joins; these are joined
    **named: Any,  # noqa: ANN401 - SQLAlchemy's
) -> str:
    """SQLite never changes the order of a ``CROSS JOIN``."""
    assert join.onclause is not None  # noqa: S101 - in_order has given it
    left, right = (compiler.process(side, asfrom=True, **named) for side in (join.left, join.right))
    return f"{left} CROSS JOIN {right} ON {compiler.process(join.onclause, **named)}"


@compiles(_InOrder, "postgresql")
def _postgres_in_order(
    join: _InOrder,
    compiler: SQLCompiler,
    *,
    asfrom: bool = False,  # noqa: ARG001 - as above
    from_linter: object = None,  # noqa: ARG001 - as above
    **named: Any,  # noqa: ANN401 - SQLAlchemy's
) -> str:
    """PostgreSQL knows how many rows the tables have."""
    assert join.onclause is not None  # noqa: S101 - in_order has given it
    left, right = (compiler.process(side, asfrom=True, **named) for side in (join.left, join.right))
    return f"{left} JOIN {right} ON {compiler.process(join.onclause, **named)}"


def in_order(left: FromClause, right: FromClause, on: ColumnElement[bool]) -> Join:
    """A join that reads the left side, and for each of its rows the right side."""
    return _InOrder(left, right, on)


def by_index(statement: Select[Any], table: FromClause, index: str) -> Select[Any]:
    """The statement, which reads ``table`` by this index. If it can't, it fails."""
    return statement.with_hint(table, f"INDEXED BY {index}", "sqlite")


def most(number: int) -> ColumnElement[int]:
    """A number of rows for ``limit`` that becomes part of the statement's text.

    If it is a parameter, SQLite 3.53 prepares the statement again for each execution: 25 µs with three tables.
    """
    return literal_column(str(number))


LARGEST = 2**63 - 1


def newer(number: ColumnElement[int], than: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether a row's number comes after a mark that the statement reads itself, as few rows do.

    PostgreSQL does not know the mark, and assumes that a third of all rows comes after it. So it would read whole
    tables. Between two bounds it assumes few.
    """
    return and_(number > than, number < literal_column(str(LARGEST)))


class SqliteCompiler(SQLiteCompiler):
    """Writes the hint for a table behind its name, as SQLite reads it. SQLAlchemy's own compiler leaves it out."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        """The hint as it was given."""
        return text

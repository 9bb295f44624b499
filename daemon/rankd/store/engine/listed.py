"""Lists in statements: a parameter or a column with a JSON list as a table, and values that are not parameters.

A list is one parameter, whatever its length. So SQLAlchemy compiles the statement once, the driver keeps it prepared,
and no limit on the number of parameters applies. Each database writes it in its own dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, Text, bindparam, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import TypeDecorator


class _JsonList(TypeDecorator[Iterable[object]]):
    """Numbers, texts or lists of them, sent to the database as a JSON list."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Iterable[object] | None, dialect: object) -> str:  # noqa: ARG002 - SQLAlchemy's
        return msgspec.json.encode(list(value or ())).decode()


class _Rows(FunctionElement[Any]):
    """The rows of a list."""

    name = "rows_of_list"
    inherit_cache = True


@compiles(_Rows, "sqlite")
def _sqlite_rows(element: _Rows, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_each({compiler.process(element.clauses, **named)})"


class _Item(FunctionElement[Any]):
    """A part of a JSON value."""

    name = "item_of"
    inherit_cache = True


@compiles(_Item, "sqlite")
def _sqlite_item(element: _Item, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_extract({compiler.process(element.clauses, **named)})"


class _Length(FunctionElement[int]):
    """The number of elements of a JSON list."""

    name = "length_of_list"
    inherit_cache = True


@compiles(_Length, "sqlite")
def _sqlite_length(element: _Length, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_array_length({compiler.process(element.clauses, **named)})"


def listed(parameter: str) -> TableValuedAlias:
    """The list in ``parameter``, as a table with the column ``value``."""
    return _Rows(bindparam(parameter, type_=_JsonList())).table_valued("value")


def values_of(parameter: str) -> Select[tuple[Any]]:
    """The values of such a list, for ``column.in_(values_of("ids"))``."""
    return select(listed(parameter).c.value)


def elements_of(column: ColumnElement[Any]) -> TableValuedAlias:
    """The JSON list in a column, as a table with the column ``value``. Join it ``true()`` to the column's table."""
    return _Rows(column).table_valued("value")


def item_of(value: ColumnElement[Any], path: str) -> ColumnElement[Any]:
    """The part of a JSON value at a path of SQL/JSON: ``$[0]``, ``$.job``."""
    return _Item(value, literal_column(f"'{path}'"))


def length_of(column: ColumnElement[Any]) -> ColumnElement[int]:
    """The number of elements of the JSON list in a column."""
    return _Length(column)


def written(*values: str) -> list[ColumnElement[str]]:
    """Values for ``column.in_(...)`` that become part of the statement's text.

    SQLite uses a partial index only if the statement has the values that the index names; it does not look into
    parameters.
    """
    return [literal_column(f"'{value}'") for value in values]

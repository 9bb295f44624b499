"""Lists in statements: a parameter or a column with a JSON list as a table, and values that are not parameters.

A list is one parameter, whatever its length. So SQLAlchemy compiles the statement once, the driver keeps it prepared,
and no limit on the number of parameters applies. Each database writes it in its own dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Integer, Select, Text, bindparam, column, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import TypeDecorator, TypeEngine

from rankd.store.engine.word import NUMBERS, TEXTS, VALUES


class _JsonList(TypeDecorator[Iterable[object]]):
    """Numbers, texts or lists of them, sent to the database as a JSON list."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Iterable[object] | None, dialect: object) -> str:  # noqa: ARG002 - SQLAlchemy's
        return msgspec.json.encode(list(value or ())).decode()


class _Rows(FunctionElement[Any]):
    """The rows of a list: integers, texts, or any values as JSON."""

    inherit_cache = True


class _Numbers(_Rows):
    name = "rankd_numbers"
    inherit_cache = True


class _Texts(_Rows):
    name = "rankd_texts"
    inherit_cache = True


class _Values(_Rows):
    name = "rankd_values"
    inherit_cache = True


_ROWS = {NUMBERS: _Numbers, TEXTS: _Texts, VALUES: _Values}
_TYPES: dict[str, TypeEngine[Any]] = {NUMBERS: Integer(), TEXTS: Text(), VALUES: Text()}


@compiles(_Rows, "sqlite")
def _sqlite_rows(element: _Rows, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_each({compiler.process(element.clauses, **named)})"


@compiles(_Rows, "postgresql")
def _postgres_rows(element: _Rows, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"{element.name}({compiler.process(element.clauses, **named)})"


class _Item(FunctionElement[Any]):
    """A part of a JSON value."""

    inherit_cache = True


class _NumberItem(_Item):
    name = "rankd_number_at"
    type = Integer()
    inherit_cache = True


class _AnyItem(_Item):
    name = "rankd_value_at"
    inherit_cache = True


class _TextItem(_Item):
    name = "rankd_text_at"
    type = Text()
    inherit_cache = True


@compiles(_Item, "sqlite")
def _sqlite_item(element: _Item, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_extract({compiler.process(element.clauses, **named)})"


@compiles(_Item, "postgresql")
def _postgres_item(element: _Item, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"{element.name}({compiler.process(element.clauses, **named)})"


class _Length(FunctionElement[int]):
    """The number of elements of a JSON list."""

    name = "length_of_list"
    inherit_cache = True


@compiles(_Length, "sqlite")
def _sqlite_length(element: _Length, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_array_length({compiler.process(element.clauses, **named)})"


@compiles(_Length, "postgresql")
def _postgres_length(element: _Length, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_array_length(CAST({compiler.process(element.clauses, **named)} AS json))"


class _ListOf(FunctionElement[str]):
    """The values of a group as a JSON list."""

    name = "list_of"
    type = Text()
    inherit_cache = True


@compiles(_ListOf, "sqlite")
def _sqlite_list(element: _ListOf, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"json_group_array({compiler.process(element.clauses, **named)})"


@compiles(_ListOf, "postgresql")
def _postgres_list(element: _ListOf, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"CAST(json_agg({compiler.process(element.clauses, **named)}) AS text)"


def listed(parameter: str, kind: str = NUMBERS) -> TableValuedAlias:
    """The list in ``parameter``, as a table with the column ``value``."""
    return _table(bindparam(parameter, type_=_JsonList()), kind)


def values_of(parameter: str, kind: str = NUMBERS) -> Select[tuple[Any]]:
    """The values of such a list, for ``column.in_(values_of("ids"))``."""
    return select(listed(parameter, kind).c.value)


def elements_of(column: ColumnElement[Any], kind: str = NUMBERS) -> TableValuedAlias:
    """The JSON list in a column, as a table with the column ``value``. Join it ``true()`` to the column's table."""
    return _table(column, kind)


def list_of(numbers: ColumnElement[Any]) -> ColumnElement[str]:
    """The numbers of a group as a JSON list. Without numbers, it is NULL or empty, as the database has it."""
    return _ListOf(numbers)


def _table(source: ColumnElement[Any], kind: str) -> TableValuedAlias:
    return _ROWS[kind](source).table_valued(column("value", _TYPES[kind]))


def number_of(value: ColumnElement[Any], path: str) -> ColumnElement[int]:
    """The integer at a path of a JSON value: ``$[0]``, ``$.job``."""
    return _NumberItem(value, literal_column(f"'{path}'"))


def value_of(value: ColumnElement[Any], path: str) -> ColumnElement[Any]:
    """What is at a path of a JSON value, for a result: a number, or a text."""
    return _AnyItem(value, literal_column(f"'{path}'"))


def text_of(value: ColumnElement[Any], path: str) -> ColumnElement[str]:
    """The text at a path of a JSON value."""
    return _TextItem(value, literal_column(f"'{path}'"))


def length_of(column: ColumnElement[Any]) -> ColumnElement[int]:
    """The number of elements of the JSON list in a column."""
    return _Length(column)


def written(*values: str) -> list[ColumnElement[str]]:
    """Values for ``column.in_(...)`` that become part of the statement's text.

    SQLite uses a partial index only if the statement has the values that the index names; it does not look into
    parameters.
    """
    return [literal_column(f"'{value}'") for value in values]

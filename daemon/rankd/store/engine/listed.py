"""A list as a table in a statement: one parameter for a list of any length.

So SQLAlchemy compiles the statement once, the driver keeps it prepared, and no limit on the number of parameters
applies. Each database writes it in its own dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import Select, Text, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import TypeDecorator


class _JsonList(TypeDecorator[Iterable[object]]):
    """Numbers or texts, sent to the database as a JSON list."""

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


def listed(parameter: str) -> TableValuedAlias:
    """The list in ``parameter``, as a table with the column ``value``."""
    return _Rows(bindparam(parameter, type_=_JsonList())).table_valued("value")


def values_of(parameter: str) -> Select[tuple[Any]]:
    """The values of such a list, for ``column.in_(values_of("ids"))``."""
    return select(listed(parameter).c.value)

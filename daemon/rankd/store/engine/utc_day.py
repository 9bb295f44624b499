"""The day of a time, in the dialect of each database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _UtcDay(FunctionElement[str]):
    """The day of a time in UTC seconds."""

    name = "utc_day"
    type = Text()
    inherit_cache = True


@compiles(_UtcDay, "sqlite")
def _sqlite_utc_day(element: _UtcDay, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    return f"date({compiler.process(element.clauses, **named)}, 'unixepoch')"


@compiles(_UtcDay, "postgresql")
def _postgres_utc_day(element: _UtcDay, compiler: SQLCompiler, **named: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    at = compiler.process(element.clauses, **named)
    return f"to_char(to_timestamp({at}) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


def utc_day(column: ColumnElement[Any]) -> ColumnElement[str]:
    """The UTC day of the time (UTC seconds) in a column, as ``2026-11-23``."""
    return _UtcDay(column)

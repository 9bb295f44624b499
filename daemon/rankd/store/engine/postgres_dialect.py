"""SQLAlchemy's dialect for PostgreSQL, with the types that rankd uses in all databases.

Booleans are 0 and 1, integers have 64 bits, and texts are ordered by their bytes. Ids come from ``rankd_next_id``
(:mod:`rankd.store.schema.postgres_function`). Parameters are ``?`` in all texts; the cursor numbers them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Dialect, Index, Table, Text, util
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGTypeCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.sql.selectable import Alias
from sqlalchemy.sql.sqltypes import Boolean, Integer

DRIVER = "postgresql+rankd"
"""The name of this dialect in SQLAlchemy's URLs."""


class _Flag(Boolean):
    """A boolean as 0 or 1."""

    def bind_processor(self, dialect: Dialect) -> None:
        """The driver sends it as a number."""

    def result_processor(
        self,
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's
        coltype: object,  # noqa: ARG002 - as above
    ) -> Callable[[Any], bool | None]:
        """The truth of what was read."""
        return lambda value: None if value is None else bool(value)


class _Types(PGTypeCompiler):
    """Integers of 64 bits, and booleans that are numbers."""

    def visit_integer(self, type_: Integer, **_: Any) -> str:  # noqa: ANN401, ARG002 - SQLAlchemy's
        """BIGINT."""
        return "BIGINT"

    def visit_boolean(self, type_: Boolean, **_: Any) -> str:  # noqa: ANN401, ARG002 - SQLAlchemy's
        """SMALLINT."""
        return "SMALLINT"


class _Statements(PGCompiler_psycopg):
    """Conditions on booleans. The server's own tables have real ones."""

    def visit_is_true_unary_operator(self, element: Any, operator: Any, **named: Any) -> str:  # noqa: ANN401, ARG002
        """The column is 1."""
        text = self.process(element.element, **named)
        return f"{text} = 1" if _is_flag(element) else text

    def visit_is_false_unary_operator(self, element: Any, operator: Any, **named: Any) -> str:  # noqa: ANN401, ARG002
        """The column is 0."""
        text = self.process(element.element, **named)
        return f"{text} = 0" if _is_flag(element) else f"NOT {text}"


def _is_flag(element: Any) -> bool:  # noqa: ANN401 - SQLAlchemy's
    """Whether a condition is a column of rankd's own tables."""
    if element._is_implicitly_boolean:  # noqa: SLF001 - as SQLAlchemy's compiler
        return False
    table = getattr(element.element, "table", None)
    while isinstance(table, Alias):
        table = table.element
    return isinstance(table, Table) and table.schema != "pg_catalog"


class _Tables(PGDDLCompiler):
    """Columns and indexes as SQLite has them."""

    def get_column_specification(self, column: Column[Any], **options: Any) -> str:  # noqa: ANN401, ARG002 - SQLAlchemy's
        """The column's name, type and constraints."""
        kind = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        text = f"{self.preparer.format_column(column)} {kind}"
        if isinstance(column.type, Text):
            text += ' COLLATE "C"'
        if column.table is not None and column is column.table._autoincrement_column:  # noqa: SLF001 - no other way
            text += f" DEFAULT rankd_next_id('{column.table.name}')"
        elif (default := self.get_column_default_string(column)) is not None:
            text += f" DEFAULT {default}"
        return text if column.nullable else f"{text} NOT NULL"

    def visit_foreign_key_constraint(self, constraint: Any, **_: Any) -> Any:  # noqa: ANN401, ARG002 - SQLAlchemy's
        """No text: as in SQLite, foreign keys are not enforced. They would cost a look-up per row."""
        return None

    def visit_create_index(self, create: Any, *given: Any, **options: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's
        """The statement, with the condition that the index has in SQLite."""
        index: Index = create.element
        if (where := index.dialect_options["sqlite"]["where"]) is not None:
            index.dialect_options["postgresql"]["where"] = where
        return super().visit_create_index(create, *given, **options)  # type: ignore[no-untyped-call]


class Postgres(PGDialect_psycopg):
    """PostgreSQL, by psycopg."""

    supports_statement_cache = True
    colspecs = util.update_copy(PGDialect_psycopg.colspecs, {Boolean: _Flag, Integer: Integer})
    type_compiler_cls = _Types
    ddl_compiler = _Tables
    statement_compiler = _Statements
    default_paramstyle = "qmark"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        super().__init__(**{"paramstyle": "qmark", **options})  # type: ignore[no-untyped-call]


registry.register("postgresql.rankd", __name__, "Postgres")

"""Deletes the rows of generations that are no longer in use, a few at a time."""

from __future__ import annotations

from itertools import compress

from sqlalchemy import BindParameter, CompoundSelect, Delete, Table, bindparam, delete, exists, select, tuple_

from rankd.store.engine.connection import Connection
from rankd.store.engine.plan import most
from rankd.store.schema import generation_table as tables

_WIDE = {"sqlite": 8, "postgresql": 64}
_NARROW = 500
"""Rows per transaction: one or two milliseconds in which no other process can write. PostgreSQL only marks them."""

_WIDE_TABLES = (tables.ranking_chunks, tables.rank_chunks, tables.ranking_leaves, tables.ranking_deltas)
_NARROW_TABLES = (
    tables.ranking_delta_places,
    tables.ranking_delta_jobs,
    tables.generation_numbers,
    tables.generation_values,
    tables.generation_partitions,
    tables.generation_queues,
    tables.generation_associations,
)
"""These and the wide ones are the tables that store a full generation under its number."""
_TABLES = {table.name: table for table in (*_WIDE_TABLES, *_NARROW_TABLES)}
_MOST = {
    (dialect, name): wide if table in _WIDE_TABLES else _NARROW
    for dialect, wide in _WIDE.items()
    for name, table in _TABLES.items()
}
"""The most rows of each table that one statement deletes, by database."""

_BASE: BindParameter[int] = bindparam("base")


def _keys_of_others(table: Table) -> CompoundSelect[tuple[object, ...]]:
    """The primary keys of rows of generations other than ``base``. Two searches, because ``<>`` uses no index."""
    keys = select(*table.primary_key.columns)
    return keys.where(table.c.generation < _BASE).union_all(keys.where(table.c.generation > _BASE))


def _deletion(table: Table, at_once: int) -> Delete:
    """Deletes some of the rows of generations other than ``base``."""
    some = _keys_of_others(table).limit(most(at_once))
    return delete(table).where(tuple_(*table.primary_key.columns).in_(some))


_STALE = select(*(exists(_keys_of_others(table)) for table in _TABLES.values()))
"""Whether each table has rows of generations other than ``base``: one statement, because each full pass runs it."""
_DELETIONS = {kind: _deletion(_TABLES[kind[1]], at_once) for kind, at_once in _MOST.items()}


def stale_tables(connection: Connection, base: int) -> list[str]:
    """The tables with rows of generations other than ``base``: earlier ones, or a ranking that was abandoned."""
    return list(compress(_TABLES, connection.execute(_STALE, {"base": base}).one()))


def prune(connection: Connection, name: str, base: int) -> bool:
    """Delete some rows of generations other than ``base`` from a table. Returns whether there may be more."""
    kind = connection.dialect.name, name
    return connection.execute(_DELETIONS[kind], {"base": base}).rowcount == _MOST[kind]

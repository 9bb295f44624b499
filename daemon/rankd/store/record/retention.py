"""Deletes the rows of generations that are no longer in use, a few at a time."""

from __future__ import annotations

from sqlalchemy import CompoundSelect, delete, select, tuple_

from rankd.store.engine.connection import Connection
from rankd.store.schema import generation_table as tables

_WIDE = 8
_NARROW = 500
"""Rows per transaction: one or two milliseconds in which no other process can write."""

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


def stale_tables(connection: Connection, base: int) -> list[str]:
    """The tables with rows of generations other than ``base``: earlier ones, or a ranking that was abandoned."""
    return [name for name in _TABLES if connection.execute(_keys_of_others(name, base).limit(1)).first()]


def prune(connection: Connection, name: str, base: int) -> bool:
    """Delete some rows of generations other than ``base`` from a table. Returns whether there may be more."""
    table = _TABLES[name]
    limit = _WIDE if table in _WIDE_TABLES else _NARROW
    keys, some = tuple_(*table.primary_key.columns), _keys_of_others(name, base).limit(limit)
    return connection.execute(delete(table).where(keys.in_(some))).rowcount == limit


def _keys_of_others(name: str, base: int) -> CompoundSelect[tuple[object, ...]]:
    """The primary keys of rows of generations other than ``base``. Two searches, because ``<>`` uses no index."""
    table = _TABLES[name]
    keys = select(*table.primary_key.columns)
    return keys.where(table.c.generation < base).union_all(keys.where(table.c.generation > base))

"""What is stored of generations that nothing stands on any more goes, a little at a time."""

from __future__ import annotations

from sqlalchemy import Connection

_WIDE = 8
_NARROW = 500
"""Rows per transaction: one or two milliseconds in which nobody else can write."""

_TABLES = {
    "ranking_chunks": ("rowid", _WIDE),
    "rank_chunks": ("rowid", _WIDE),
    "ranking_leaves": ("rowid", _WIDE),
    "ranking_deltas": ("rowid", _WIDE),
    "ranking_delta_places": ("generation, first_position, place", _NARROW),
    "ranking_delta_jobs": ("generation, job_id", _NARROW),
    "generation_numbers": ("rowid", _NARROW),
    "generation_values": ("generation, factor, key", _NARROW),
    "generation_partitions": ("rowid", _NARROW),
    "generation_queues": ("rowid", _NARROW),
    "generation_associations": ("rowid", _NARROW),
}
"""What is stored of a full generation under its number: the key by which rows are deleted, and how many at once."""


def stale_tables(connection: Connection, base: int) -> list[str]:
    """Those with rows of other generations than ``base``: of earlier ones, or of a pass that came to nothing."""
    query = "SELECT 1 FROM {0} WHERE generation < ? UNION ALL SELECT 1 FROM {0} WHERE generation > ? LIMIT 1"
    return [table for table in _TABLES if connection.exec_driver_sql(query.format(table), (base, base)).first()]


def prune(connection: Connection, table: str, base: int) -> bool:
    """Delete some rows of other generations than ``base``; whether there may be more."""
    key, limit = _TABLES[table]
    deleted = connection.exec_driver_sql(
        f"DELETE FROM {table} WHERE ({key}) IN ("
        f"SELECT {key} FROM {table} WHERE generation < ? UNION ALL SELECT {key} FROM {table} WHERE generation > ?"
        " LIMIT ?)",
        (base, base, limit),
    )
    return deleted.rowcount == limit

"""All records of a site, from one database into another, and the proof that they are the same.

The copy is one transaction of the target, so a copy that is interrupted has left nothing, and is begun again. It runs
in a write transaction of the source too: no service can write there meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, LargeBinary, Table, func, select

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.database import Database
from rankd.store.engine.last_id import last_id, set_last_id
from rankd.store.engine.stopped import count_rows, may_idle, server_now
from rankd.store.schema.generation_table import generations
from rankd.store.schema.service_table import roles
from rankd.store.schema.table import metadata

assert generations.metadata is metadata  # noqa: S101 - both modules declare tables of it

ROWS_AT_ONCE, LARGE_ROWS_AT_ONCE = 2_000, 50
"""Rows in memory at the same time. Large ones are scripts and chunks of orders: up to some MiB each."""
ALIVE_S = 15.0
"""A service of a server's database runs if its last sign of life is not older. It gives one every 5 s."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_encode = msgspec.msgpack.Encoder().encode

Note = Callable[[str, int, int], None]
"""Called with the table, how many of its rows are copied, and how many it has."""


class TableSum(NamedTuple):
    """What a table holds. ``digest`` is of all rows in the order of their keys; ``newest``: its largest id ever."""

    name: str
    rows: int
    digest: str
    newest: int | None


def check_stopped(connection: Connection, now: float) -> None:
    """Check that no service uses this server's database. ``now``: UTC seconds.

    Raises:
        Unavailable: ``still_running``.
    """
    for role in connection.execute(select(roles).order_by(roles.c.name)).mappings():
        alive_at = role["since"] if role["alive_at"] is None else role["alive_at"]
        if role.get("resigned_at") is None and now - alive_at < ALIVE_S:
            message = f"the {role['name']} ({role['holder']}) gave a sign of life {max(now - alive_at, 0):.0f} s ago"
            raise Unavailable(
                "still_running", f"{message}: stop the services first; after a kill, wait {ALIVE_S:.0f} s"
            )


async def copy_between(source: Database, target: Database, note: Note) -> list[TableSum]:
    """:func:`copy_site` under the locks of both databases' writers.

    Raises:
        Unavailable: ``still_running``, and as :func:`copy_site`.
    """
    loop = asyncio.get_running_loop()

    def between(one: Connection, other: Connection) -> list[TableSum]:
        for connection in (one, other):
            if connection.dialect.name == "postgresql":
                may_idle(connection)  # while the other database is read
                check_stopped(connection, server_now(connection))
        copied = copy_site(one, other, note)
        if other.dialect.name == "postgresql":
            count_rows(other)
        return copied

    def into(one: Connection) -> list[TableSum]:
        writing = target.write(lambda other: between(one, other))
        return asyncio.run_coroutine_threadsafe(writing, loop).result()

    return await source.write(into)


def copy_site(source: Connection, target: Connection, note: Note) -> list[TableSum]:
    """Copy all rows into the target, which has the same schema, and compare both. Returns what each table holds.

    If the target has exactly these rows already, nothing is written.

    Raises:
        Refused: ``not_empty``: the target has other rows.
        Unavailable: ``copy_differs``: what was written is not what was read; nothing is kept.
    """
    if filled := [table.name for table in metadata.sorted_tables if _count(target, table)]:
        return _same(source, target, filled)
    copied = [_copy(source, target, table, note) for table in metadata.sorted_tables]
    for wanted in copied:
        if (found := sum_of(target, metadata.tables[wanted.name])) != wanted:
            message = f"table {wanted.name}: {wanted} was read, but {found} is there now; the copy is undone"
            raise Unavailable("copy_differs", message)
    return copied


def _same(source: Connection, target: Connection, filled: Sequence[str]) -> list[TableSum]:
    wanted = [sum_of(source, table, mends_texts=_has_no_nul(target)) for table in metadata.sorted_tables]
    different = [one.name for one in wanted if sum_of(target, metadata.tables[one.name]) != one]
    if different:
        message = f"the target has rows already ({', '.join(filled[:3])}, …), and {', '.join(different[:3])} differ"
        raise Refused("not_empty", f"{message} from the source; give an empty database with --to", "to")
    return wanted


def _copy(source: Connection, target: Connection, table: Table, note: Note) -> TableSum:
    """Copy a table; returns the sum of what was read."""
    names, total, done, mends = [c.name for c in table.columns], _count(source, table), 0, _has_no_nul(target)
    digest = hashlib.blake2b(digest_size=16)
    with closing(_pages(source, table, mends_texts=mends)) as pages:
        for rows in pages:
            bulk_insert(target, table.name, names, rows)
            _add(digest, rows)
            done += len(rows)
            note(table.name, done, total)
    newest = None
    if _never_reuses(table):
        newest = last_id(source, table.name)
        set_last_id(target, table.name, newest)
    return TableSum(table.name, done, digest.hexdigest(), newest)


def sum_of(connection: Connection, table: Table, *, mends_texts: bool = False) -> TableSum:
    """What a table holds. ``mends_texts``: as PostgreSQL stores it, with U+FFFD for each NUL character."""
    digest, count = hashlib.blake2b(digest_size=16), 0
    with closing(_pages(connection, table, mends_texts=mends_texts)) as pages:
        for rows in pages:
            _add(digest, rows)
            count += len(rows)
    newest = last_id(connection, table.name) if _never_reuses(table) else None
    return TableSum(table.name, count, digest.hexdigest(), newest)


def _add(digest: Any, rows: Sequence[tuple[object, ...]]) -> None:  # noqa: ANN401 - hashlib's type has no name
    for row in rows:
        digest.update(_encode([_plain(value) for value in row]))


def _plain(value: object) -> object:
    """The value without the sign of a zero: SQLite does not keep it."""
    return value + 0.0 if type(value) is float else value


def _pages(
    connection: Connection, table: Table, *, mends_texts: bool
) -> Generator[list[tuple[object, ...]], None, None]:
    """All rows in the order of their keys, some at a time."""
    is_large = any(isinstance(column.type, LargeBinary) for column in table.columns)
    options = {"yield_per": LARGE_ROWS_AT_ONCE if is_large else ROWS_AT_ONCE}
    query = select(table).order_by(*table.primary_key.columns)
    with connection.execute(query, execution_options=options) as result:
        for page in result.partitions():
            rows = [tuple(row) for row in page]
            yield [tuple(map(_mended, row)) for row in rows] if mends_texts else rows


def _mended(value: object) -> object:
    return value.replace("\0", REPLACEMENT) if isinstance(value, str) and "\0" in value else value


def _has_no_nul(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _never_reuses(table: Table) -> bool:
    return bool(table.dialect_options["sqlite"]["autoincrement"])


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())

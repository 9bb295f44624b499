"""What the processes of the torture do: writers, the one that checkpoints, and readers; and what must always hold.

A commit of a writer is a row whose content follows from its number, and the writer's counter. Rows of old commits are
deleted, so that the file stays small while its pages are used again.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3 as standard  # in a process that uses no other copy of SQLite: a user's own program
import struct
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rankd.store.engine import checkpoint
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.sqlite import SqliteDatabase

SCHEMA = """
CREATE TABLE counters (writer INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE commits (writer INTEGER, number INTEGER, content BLOB, PRIMARY KEY (writer, number));
CREATE INDEX commits_by_content ON commits (substr(content, 1, 8));
"""
KEPT = 60
"""Commits of each writer whose rows stay."""
MOST_BYTES = 6_000
WRITERS = 3
_NUMBER = struct.Struct("q")


class Site(NamedTuple):
    """The database, whether checkpoints go on beside writers, and whether the writers are made to lose their locks."""

    path: Path
    beside_writers: bool
    is_broken: bool

    def acknowledged(self, writer: int) -> Path:
        """Where a writer writes down the number of its last commit, once it is acknowledged."""
        return self.path.with_name(f"acknowledged-{writer}")


def create(path: Path) -> None:
    """An empty database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        connection.executemany("INSERT INTO counters VALUES (?, 0)", [(writer,) for writer in range(WRITERS)])


def content(writer: int, number: int) -> bytes:
    """What a commit stores: up to two pages."""
    made = random.Random(writer * 10_000_000 + number)
    return made.randbytes(made.randrange(8, MOST_BYTES))


def write(site: Site, writer: int) -> None:
    """Commit for ever, through the real class."""
    asyncio.run(_write(site, writer))


async def _write(site: Site, writer: int) -> None:
    acknowledged = os.open(site.acknowledged(writer), os.O_WRONLY | os.O_CREAT)
    async with SqliteDatabase(site.path, durable=writer == 0, beside_writers=site.beside_writers) as database:
        while True:
            number = await database.write(lambda connection: _commit(connection, site, writer))
            os.pwrite(acknowledged, _NUMBER.pack(number), 0)


def _commit(connection, site: Site, writer: int) -> int:
    if site.is_broken:  # closing a file gives back the locks that SQLite has on it
        os.close(os.open(f"{site.path}-shm", os.O_RDWR))
    execute = connection.exec_driver_sql
    execute("UPDATE counters SET number = number + 1 WHERE writer = ?", (writer,))
    number = execute("SELECT number FROM counters WHERE writer = ?", (writer,)).scalar_one()
    bulk_insert(connection, "commits", ("writer", "number", "content"), [(writer, number, content(writer, number))])
    execute("DELETE FROM commits WHERE writer = ? AND number <= ?", (writer, number - KEPT))
    return number


def checkpoint_for_ever(site: Site, large_log: int) -> None:
    """Checkpoint without a pause. ``large_log``: pages from which on the log is made to begin again."""
    checkpoint.LARGE_LOG = large_log
    made = checkpoint.Checkpoint(site.path, beside_writers=site.beside_writers)
    while True:
        made.run()


def read_for_ever(site: Site) -> None:
    """Check what can be read, for ever, as a user's own program does."""
    while True:
        verify(site, standard)


def verify(site: Site, library=standard) -> None:
    """Whether the file is whole and every acknowledged commit is in it.

    Raises:
        AssertionError: it is not.
        sqlite3.DatabaseError: SQLite itself finds it malformed.
    """
    expected = [_acknowledged(site, writer) for writer in range(WRITERS)]
    with closing(library.connect(site.path, isolation_level=None, timeout=60)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
        assert found == ["ok"], f"integrity_check: {found}"
        for writer, number in connection.execute("SELECT writer, number FROM counters ORDER BY writer").fetchall():
            assert number >= expected[writer], f"writer {writer}: commit {expected[writer]} is lost, {number} is there"
            query = "SELECT number, content FROM commits WHERE writer = ? ORDER BY number"
            rows = connection.execute(query, (writer,)).fetchall()
            numbers = range(max(number - KEPT, 0) + 1, number + 1)
            assert [row[0] for row in rows] == list(numbers), f"writer {writer}: commits {[row[0] for row in rows]}"
            assert all(row[1] == content(writer, row[0]) for row in rows), f"writer {writer}: a content is not its own"


def _acknowledged(site: Site, writer: int) -> int:
    file = site.acknowledged(writer)
    written = file.read_bytes() if file.exists() else b""
    return _NUMBER.unpack(written)[0] if written else 0  # it is empty until the first one

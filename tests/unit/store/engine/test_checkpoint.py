import asyncio
import itertools
from contextlib import closing

import pytest
from builder import new_database

from rankd.store.engine import checkpoint
from rankd.store.engine.checkpoint import LARGE_LOG
from rankd.store.engine.database import CHECKPOINT_PAGES
from rankd.store.engine.driver import CHECKPOINTS_BESIDE_WRITERS, sqlite3
from rankd.store.engine.lock import FileLock
from rankd.store.engine.sqlite import SqliteDatabase
from rankd.store.engine.wal import read_log

INSERT = "INSERT INTO node_events (node, event, at, actor) VALUES (?, 'x', 0, '')"
needs_new_sqlite = pytest.mark.skipif(not CHECKPOINTS_BESIDE_WRITERS, reason=f"SQLite {sqlite3.sqlite_version}")


@pytest.fixture
async def database(tmp_path):
    async with SqliteDatabase(new_database(tmp_path), durable=False) as opened:
        yield opened


def pages(number):
    """Work that adds at least this many pages to the log."""
    return lambda c: [c.exec_driver_sql(INSERT, ("x" * 4000,)) for _ in range(number)]


def log_of(database):
    return read_log(database.path.with_name(database.path.name + "-wal"))


@needs_new_sqlite
async def test_a_checkpoint_does_not_wait_for_a_writer(database):
    await database.write(pages(CHECKPOINT_PAGES))
    size, lock = database.path.stat().st_size, FileLock(database.path.with_name(database.path.name + ".lock"))
    with lock.held(), closing(sqlite3.connect(database.path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(INSERT, ("beside",))
        assert await database.checkpoint() == 0
        writer.execute("COMMIT")
    lock.close()
    assert database.path.stat().st_size > size


@needs_new_sqlite
async def test_a_log_begins_again_although_somebody_always_writes(database, monkeypatch):
    """Each copy beside writers finds a new commit behind it; the one under the lock does not."""
    copy, copies = database._checkpoint._copy, itertools.count()

    def copy_beside():
        if next(copies):
            copy()
            return
        with closing(sqlite3.connect(database.path, isolation_level=None)) as writer:
            writer.execute("PRAGMA wal_autocheckpoint = 0")
            writer.execute("BEGIN IMMEDIATE")
            copy()
            writer.execute(INSERT, ("beside",))
            writer.execute("COMMIT")

    monkeypatch.setattr(database._checkpoint, "_copy", copy_beside)
    await database.write(pages(LARGE_LOG))
    before = log_of(database)
    assert await database.checkpoint() == 0
    assert next(copies) == 2
    await database.write(pages(1))
    assert log_of(database).salts != before.salts
    assert log_of(database).frames < CHECKPOINT_PAGES


@needs_new_sqlite
async def test_no_checkpoint_of_a_small_log_takes_the_lock(database):
    await database.write(pages(CHECKPOINT_PAGES))
    lock = FileLock(database.path.with_name(database.path.name + ".lock"))
    with lock.held():
        await database.checkpoint()
    lock.close()


async def test_a_reader_of_an_earlier_state_keeps_the_log(database):
    with closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM node_events").fetchall()
        await database.write(pages(LARGE_LOG + 1))
        assert await database.checkpoint() > LARGE_LOG
        assert reader.execute("SELECT count(*) FROM node_events").fetchall() == [(0,)]
        reader.execute("COMMIT")
    assert await database.checkpoint() == 0


async def test_a_log_that_began_again_during_a_checkpoint_counts_as_not_copied(database, monkeypatch):
    """Its pages must not be subtracted from those of another log."""
    await database.write(pages(CHECKPOINT_PAGES))
    made = database._checkpoint
    ticks = itertools.count()
    monkeypatch.setattr(checkpoint, "read_log", lambda path: read_log(path)._replace(salts=bytes([next(ticks)])))
    await asyncio.to_thread(made._copy)
    assert made._copied.frames == 0

"""A database in a file: transactions, locks, checkpoints, roles."""

import asyncio
import subprocess
import sys
from contextlib import closing

import pytest
from builder import NOW, new_database
from sqlalchemy.exc import IntegrityError, OperationalError

from rankd.core.errors import RoleLost, Unavailable
from rankd.store.engine.database import CHECKPOINT_PAGES
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.lock import FileLock, acquire_or_fail
from rankd.store.engine.sqlite import SqliteDatabase
from rankd.store.engine.url import open_database

INSERT = "INSERT INTO node_events (node, event, at, actor) VALUES (?, 'x', 0, '')"
COUNT = "SELECT count(*) FROM node_events"


@pytest.fixture
async def database(tmp_path):
    async with open_database(new_database(tmp_path), durable=False) as opened:
        yield opened


def insert(*names):
    return lambda c: [c.exec_driver_sql(INSERT, (name,)) for name in names]


def count(connection):
    return connection.exec_driver_sql(COUNT).scalar_one()


# --- transactions -----------------------------------------------------------------------------------------------


async def test_a_write_is_one_transaction(database):
    def half(connection):
        insert("a")(connection)
        raise ValueError("changed my mind")

    with pytest.raises(ValueError, match="changed my mind"):
        await database.write(half)
    assert await database.read(count) == 0
    await database.write(insert("a", "b"))
    assert await database.read(count) == 2


async def test_writes_take_turns_in_the_order_in_which_they_were_asked_for(database):
    await asyncio.gather(*(database.write(insert(str(n))) for n in range(20)))
    query = "SELECT node FROM node_events ORDER BY id"
    rows = await database.read(lambda c: [row[0] for row in c.exec_driver_sql(query)])
    assert rows == [str(n) for n in range(20)]


async def test_a_read_sees_one_state_whatever_is_committed_meanwhile(database):
    def look_twice(connection):
        before = count(connection)
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute(INSERT, ("meanwhile",))
        return before, count(connection)

    assert await database.read(look_twice) == (0, 0)
    assert await database.read(count) == 1


async def test_readers_cannot_write(database):
    with pytest.raises(OperationalError, match="readonly"):
        await database.read(insert("a"))
    assert await database.read(count) == 0


async def test_readers_do_not_wait_for_the_writers_lock(database):
    lock = FileLock(database.path.with_name(database.path.name + ".lock"))
    with lock.held():
        assert await database.read(count) == 0
    lock.close()


async def test_a_full_disk_is_unavailability_and_nothing_is_written(database):
    await database.write(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1"))
    with pytest.raises(Unavailable) as caught:
        await database.write(insert("x" * 5_000_000))
    assert caught.value.code == "storage_failed"
    assert caught.value.retryable
    assert await database.read(count) == 0


async def test_a_broken_rule_of_the_schema_is_no_unavailability(database):
    with pytest.raises(IntegrityError):
        await database.write(lambda c: c.exec_driver_sql(INSERT, (None,)))


# --- the file lock ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["write", "checkpoint", "close"])
async def test_writes_checkpoints_and_closing_wait_for_whoever_holds_the_lock(tmp_path, what):
    """Checkpoints do so with an SQLite that can't have them beside writers."""
    database = SqliteDatabase(new_database(tmp_path), durable=False, beside_writers=False)
    await database.write(insert("a"))
    loop = asyncio.get_running_loop()
    lock = FileLock(database.path.with_name(database.path.name + ".lock"))
    with lock.held():
        waiting = {
            "write": lambda: database.write(insert("b")),
            "checkpoint": lambda: loop.run_in_executor(database._checkpointer, database._checkpoint.run),
            "close": lambda: loop.run_in_executor(database._writer, database._lock.held().__enter__),
        }[what]()
        task = asyncio.ensure_future(waiting)  # noqa: TID251 - awaited below
        for _ in range(20):
            await database.read(count)
        assert not task.done()
        assert await database.read(count) == 1
    await task
    lock.close()
    await database.__aexit__(None, None, None)


WRITER = f"""
import asyncio, pathlib, sys
from rankd.store.engine.url import open_database

async def main():
    async with open_database(pathlib.Path(sys.argv[1]), durable=False) as database:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(60):
            await database.write(lambda c: [c.exec_driver_sql({INSERT!r}, ("child",)) for _ in range(20)])
            await asyncio.to_thread(database._checkpoint.run)

asyncio.run(main())
"""


async def test_two_processes_write_and_checkpoint_at_once_and_nobody_is_ever_locked_out(database):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(database.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n"
    child.stdin.write("\n")
    child.stdin.flush()
    for _ in range(60):
        await database.write(insert(*["parent"] * 20))
        await asyncio.to_thread(database._checkpoint.run)
    _, errors = await asyncio.to_thread(child.communicate)
    assert (child.returncode, errors) == (0, "")
    assert await database.read(count) == 2 * 60 * 20
    assert await database.read(lambda c: c.exec_driver_sql("PRAGMA integrity_check").scalar_one()) == "ok"


async def test_checkpoints_are_nobodys_side_effect(database):
    """SQLite's own ones are off: with an old SQLite they may corrupt the file beside another writer."""
    for _ in range(3):
        await database.write(insert(*["x" * 1000] * 2000))
    wal = database.path.with_name(database.path.name + "-wal")
    size = database.path.stat().st_size
    assert wal.stat().st_size > 5_000_000
    await database.checkpoint()
    assert database.path.stat().st_size > size + 5_000_000
    assert await database.read(count) == 6000


async def test_a_checkpoint_waits_until_there_is_enough_and_says_what_the_log_holds(database):
    await database.write(insert("x" * 1000))
    before = database.path.stat().st_size
    assert 0 < await database.checkpoint() < CHECKPOINT_PAGES
    assert database.path.stat().st_size == before
    with closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute(COUNT).fetchall()
        for _ in range(3):
            await database.write(insert(*["x" * 1000] * 2000))
        assert await database.checkpoint() >= CHECKPOINT_PAGES
        reader.execute("COMMIT")
    assert await database.checkpoint() == 0
    assert database.path.stat().st_size > before + 5_000_000


# --- roles ----------------------------------------------------------------------------------------------------------


async def test_a_role_is_held_by_one_only(database):
    await database.take_role("scheduler", NOW)
    path = database.path.with_name(database.path.name + ".scheduler.lock")
    with pytest.raises(Unavailable) as caught:
        await acquire_or_fail(path, "scheduler", patience_s=0)
    assert caught.value.code == "already_running"
    assert "another scheduler is running" in caught.value.message


async def test_another_may_take_a_role_as_soon_as_its_holder_has_gone(tmp_path):
    path = new_database(tmp_path)
    async with open_database(path, durable=False) as first:
        assert await first.take_role("scheduler", NOW) == 1
        await first.write(insert("a"), role="scheduler")
    async with open_database(path, durable=False) as second:
        assert await second.take_role("scheduler", NOW) == 2
        assert await second.take_role("intake", NOW) == 1
        await second.write(insert("b"), role="scheduler")


async def test_who_waits_gets_the_role_when_its_holder_goes(tmp_path):
    path = new_database(tmp_path)
    first = open_database(path, durable=False)
    await first.take_role("scheduler", NOW)
    async with open_database(path, durable=False) as second, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(second.take_role("scheduler", NOW))
        await asyncio.sleep(0)
        await first.__aexit__(None, None, None)
        assert await waiting == 2


async def test_who_lost_a_role_writes_nothing_any_more(tmp_path):
    """As when somebody clears away lock files while rankd runs."""
    path = new_database(tmp_path)
    async with open_database(path, durable=False) as old, open_database(path, durable=False) as new:
        await old.take_role("scheduler", NOW)
        path.with_name(path.name + ".scheduler.lock").unlink()
        await new.take_role("scheduler", NOW)
        with pytest.raises(RoleLost) as caught:
            await old.write(insert("a"), role="scheduler")
        assert caught.value.role == "scheduler"
        await new.write(insert("b"), role="scheduler")
        assert await new.read(count) == 1


async def test_a_role_that_was_never_taken_is_not_held(database):
    with pytest.raises(RoleLost):
        await database.write(insert("a"), role="intake")
    assert await database.read(count) == 0

"""PostgreSQL, a real server: the order of events of concurrent writers, lost servers, and what stays in a session."""

import asyncio
import re
import threading

import psycopg
import pytest
from builder import NOW, configuration
from contract.store import Store
from postgres_server import server
from watch import PATIENCE_S

from rankd.core.errors import Unavailable, UnknownOutcome
from rankd.store.engine import postgres_prepared
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.last_id import last_id
from rankd.store.engine.postgres import MAX_GROUP, WRITE_LOCK, PostgresDatabase
from rankd.store.engine.postgres_connection import engine_of
from rankd.store.engine.postgres_message import Beginning
from rankd.store.feed import event, job_end, new_pending
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.node import record_node_event
from rankd.store.record.relay_mark import Mark
from rankd.store.schema.migration import upgrade


@pytest.fixture
async def other(url, database, tmp_path):  # noqa: ARG001 - it makes the tables
    """The same database, as another process has it."""
    async with PostgresDatabase(url, tmp_path / "other") as opened:
        yield opened


def note(connection):
    """Write one event."""
    record_node_event(connection, "n1", "joined", NOW, "root")


def numbers(connection):
    return list(connection.exec_driver_sql("SELECT id FROM node_events ORDER BY id").scalars())


def writers_wait(url):
    """How many transactions wait for the lock of all writers."""
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        return connection.execute(query).fetchone()[0]


async def second_of_two(url, first, second):
    """Let ``second`` write while a transaction of ``first`` is open after its event; whether it was committed before.

    ``first`` is released once ``second`` has committed, or waits for the lock.
    """
    written, release = threading.Event(), threading.Event()

    def slow(connection):
        note(connection)
        written.set()
        assert release.wait(PATIENCE_S)

    async with asyncio.TaskGroup() as writes:
        writes.create_task(first.write(slow))
        await asyncio.to_thread(written.wait, PATIENCE_S)
        fast = writes.create_task(second.write(note))
        while not fast.done() and not await asyncio.to_thread(writers_wait, url):
            await asyncio.sleep(0.01)
        seen = await second.read(numbers)
        release.set()
    return seen


async def test_an_upgrade_that_waits_for_a_long_query_does_not_hold_up_other_queries(url, database, other):
    """A change of a table waits for the query, and without a limit all later queries would wait for the change."""
    as_before = "ALTER TABLE rank_chunks ALTER ranks SET STORAGE EXTENDED"
    await database.write(lambda c: c.exec_driver_sql(as_before).close())  # the upgrade changes it
    long = await psycopg.AsyncConnection.connect(url)
    await long.execute("SELECT count(*) FROM rank_chunks")  # its transaction stays open
    async with asyncio.TaskGroup() as group:
        upgrading = group.create_task(upgrade(database))
        waits = "SELECT count(*) FROM pg_locks WHERE relation = 'rank_chunks'::regclass AND NOT granted"
        while not await asyncio.to_thread(one_value, url, waits):
            await asyncio.sleep(0.01)

        def read(connection):
            connection.exec_driver_sql(f"SET LOCAL statement_timeout TO {int(PATIENCE_S * 1000)}")
            return connection.exec_driver_sql("SELECT count(*) FROM rank_chunks").scalar_one()

        assert await other.read(read) == 0
        assert not upgrading.done()
        await long.close()


def one_value(url, query):
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


async def test_an_event_is_seen_only_after_all_events_before_it(url, database, other):
    assert await second_of_two(url, database, other) == [], "an event was visible before an older one"
    assert await database.read(numbers) == [1, 2]


async def test_without_the_lock_a_follower_would_miss_events(url, database, other):
    """The naive version, with a sequence and no lock: this is what the test above would see."""
    await database.write(lambda c: c.exec_driver_sql("CREATE SEQUENCE naive"))
    await database.write(
        lambda c: c.exec_driver_sql("ALTER TABLE node_events ALTER COLUMN id SET DEFAULT nextval('naive')")
    )
    for one in (database, other):
        one._writing.dispose()
        one._writing = engine_of(url, 1, Beginning("BEGIN"))
    assert await second_of_two(url, database, other) == [2], "1 is not visible yet, and a follower is past it"


async def test_ids_are_dense_after_a_failed_transaction(database):
    def fails(connection):
        note(connection)
        raise ValueError("on purpose")

    await database.write(note)
    with pytest.raises(ValueError, match="on purpose"):
        await database.write(fails)
    await database.write(note)
    assert await database.read(numbers) == [1, 2]


async def test_an_id_is_not_used_again_after_its_row_was_deleted(database):
    await database.write(note)
    await database.write(note)
    await database.write(lambda c: c.exec_driver_sql("DELETE FROM node_events WHERE id = 2"))
    assert await database.read(lambda c: last_id(c, "node_events")) == 2
    await database.write(note)
    assert await database.read(numbers) == [1, 3]


async def test_many_writers_of_two_processes_make_dense_events(database, other):
    await asyncio.gather(*(one.write(note) for one in (database, other) for _ in range(50)))
    assert await database.read(numbers) == list(range(1, 101))


def kill_own_session(connection):
    """End the session of this transaction, as the loss of the server does."""
    own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    server().do(f"SELECT pg_terminate_backend({own})")


async def test_a_server_that_is_lost_before_the_commit_is_unavailable_and_the_next_write_succeeds(database):
    def lost(connection):
        note(connection)
        kill_own_session(connection)
        note(connection)

    with pytest.raises(Unavailable) as caught:
        await database.write(lost)
    assert caught.value.code == "storage_failed"
    assert "could not be written" in database.trouble()
    await database.write(note)
    assert database.trouble() is None
    assert await database.read(numbers) == [1]


async def test_a_server_that_is_lost_during_the_commit_leaves_the_outcome_unknown(database):
    def lost(connection):
        note(connection)
        kill_own_session(connection)

    with pytest.raises(UnknownOutcome):
        await database.write(lost)
    with pytest.raises(UnknownOutcome):
        await database.write_observed("SELECT 1", lambda connection, _: lost(connection))
    assert await database.read(numbers) == []


async def test_group_commit_does_nothing_again_if_the_outcome_is_unknown(database):
    await database.take_role("intake", NOW)
    runs = []

    async def nothing(*_):
        return

    def counted(connection):
        runs.append(1)
        note(connection)

    def lost(connection):
        counted(connection)
        kill_own_session(connection)

    group = GroupCommit(database, "intake", nothing, nothing)
    waiting = asyncio.gather(*(group.do(work) for work in (counted, lost)), return_exceptions=True)
    await asyncio.sleep(0)
    await group.run_once()
    assert [type(outcome) for outcome in await waiting] == [UnknownOutcome, UnknownOutcome]
    assert len(runs) == 2, "a work was done again"


async def test_a_read_sees_one_state_and_cannot_write(database, other):
    def twice(connection):
        before = numbers(connection)
        asyncio.run_coroutine_threadsafe(other.write(note), loop).result(PATIENCE_S)
        return before, numbers(connection)

    loop = asyncio.get_running_loop()
    assert await database.read(twice) == ([], [])
    with pytest.raises(Exception, match="read-only transaction"):
        await database.read(note)


async def test_nothing_of_a_transaction_stays_in_its_session(database):
    """A pooler in transaction mode gives the session to another client."""
    await database.write(lambda c: sync_catalog(c, configuration(), NOW))
    for _ in range(10):
        await database.write(note)
        await database.read(numbers)

    def left(connection):
        locks = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = CAST(? AS BIGINT) AND pid <> 0",
            (WRITE_LOCK & 0xFFFFFFFF,),
        ).scalar_one()
        return locks, connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()

    assert await database.read(left) == (0, "on")


def prepared(connection):
    """How many sums are prepared in this session."""
    of_sums = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT $% + 1'"
    return connection.exec_driver_sql(of_sums).scalar_one()


async def test_a_statement_that_runs_often_is_prepared_once(database):
    for _ in range(5):
        for number in (1, 2**20, 2**40):
            await database.write(lambda c, number=number: c.exec_driver_sql("SELECT ? + 1", (number,)).scalar_one())
    assert 1 <= await database.write(prepared) <= 4, "one for each statement, whatever its numbers"


async def test_what_is_prepared_outlives_a_view_with_other_columns(database, other):
    """Two columns change: one that a statement names, and all columns of another statement."""
    await database.write(lambda c: c.exec_driver_sql("CREATE VIEW seen AS SELECT 1 AS a"))

    def found(connection):
        every, one = "SELECT * FROM seen", "SELECT a FROM seen"
        return [connection.exec_driver_sql(query).one() for query in (every, one)]

    for _ in range(5):
        assert await database.read(found) == await database.write(found) == [(1,), (1,)]
    await other.write(lambda c: c.exec_driver_sql("DROP VIEW seen; CREATE VIEW seen AS SELECT 'x' AS a, 2 AS b"))
    assert await database.read(found) == [("x", 2), ("x",)]
    with pytest.raises(Unavailable) as refused:
        await database.write(found)
    assert refused.value.code == "storage_failed", "it may be repeated"
    assert await database.write(found) == [("x", 2), ("x",)]


async def test_an_upgrade_stores_the_order_of_jobs_without_compressing_it(database):
    """A million jobs take most of the time of their pass otherwise."""
    storage = "SELECT attstorage FROM pg_attribute WHERE attrelid = 'ranking_leaves'::regclass AND attname = 'ids'"
    await database.write(
        lambda c: c.exec_driver_sql("ALTER TABLE ranking_leaves ALTER ids SET STORAGE EXTENDED").close()
    )
    await upgrade(database)
    assert await database.read(lambda c: c.exec_driver_sql(storage).scalar_one()) == "e"


async def test_an_upgrade_leaves_room_for_ranks_that_change(database):
    options = "SELECT reloptions FROM pg_class WHERE oid = 'ranking_head'::regclass"
    await database.write(lambda c: c.exec_driver_sql("ALTER TABLE ranking_head RESET (fillfactor)").close())
    for _ in range(2):
        await upgrade(database)
        assert await database.read(lambda c: c.exec_driver_sql(options).scalar_one()) == ["fillfactor=50"]


async def test_a_plan_for_an_empty_table_is_not_kept(database, monkeypatch):
    """The server keeps it until it has counted the rows again, which may take minutes."""
    monkeypatch.setattr(postgres_prepared, "REPLAN_EVERY_S", 0.0)

    def plan(connection):
        connection.exec_driver_sql("SET LOCAL plan_cache_mode TO force_generic_plan")
        return "\n".join(connection.exec_driver_sql("EXPLAIN EXECUTE by_event(1)").scalars())

    def make(connection):
        connection.exec_driver_sql("CREATE TABLE grows (id bigint PRIMARY KEY, name text)")
        connection.exec_driver_sql("INSERT INTO grows SELECT 1, 'x'")
        connection.exec_driver_sql("ANALYZE grows")
        connection.exec_driver_sql("PREPARE by_event AS SELECT name FROM grows WHERE id = $1")
        return plan(connection)

    assert "Seq Scan" in await database.write(make)
    await database.write(lambda c: c.exec_driver_sql("INSERT INTO grows SELECT i, 'x' FROM generate_series(2, 9999) i"))
    assert "Index" in await database.write(plan)


@pytest.mark.parametrize(("durable", "expected"), [(True, "on"), (False, "off")])
async def test_only_what_can_be_made_again_is_committed_without_waiting_for_the_disk(url, tmp_path, durable, expected):
    async with PostgresDatabase(url, tmp_path, durable=durable) as opened:
        shown = await opened.write(lambda c: c.exec_driver_sql("SHOW synchronous_commit").scalar_one())
    assert shown == expected


async def test_names_are_ordered_by_their_bytes(database):
    store = Store(database)
    await store.configure()
    await store.add_nodes("b", "A", "a", "Z", "é")
    query = "SELECT name FROM node ORDER BY name"
    names = await database.read(lambda c: list(c.exec_driver_sql(query).scalars()))
    assert names == sorted(names, key=str.encode) == ["A", "Z", "a", "b", "é"]


async def test_small_reads_are_not_compiled_and_start_no_processes(database):
    def settings(connection):
        names = ("jit", "max_parallel_workers_per_gather")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]

    for done in (database.read, database.write, database.look):
        assert await done(settings) == ["off", "0"]


JOBS = """INSERT INTO jobs (id, revision, "user", association_id, queue_id, qos_id, name, state, held, class_value,
    preemption_policy, urgency, nodes, min_nodes, vcore, resources, exclusive, shape, requeue, submitted_at, request)
SELECT n, n, 'ann', 1, 1, 1, 'x', 'pending', 0, 0, 'Never', 0, 1, 1, 1000, '{}', 0, 1, 1, 0, '{}'
FROM generate_series(1, 3000) n"""
EVENTS = """INSERT INTO job_events (id, job_id, event, state, at, actor)
SELECT n, n, 'submit', 'pending', 0, 'ann' FROM generate_series(1, 3000) n"""


async def test_the_relay_reads_the_newest_events_without_reading_all_jobs(database):
    """The server can't know where the mark is. It would take a third of all events for new ones."""

    def plan(connection):
        for statement in (JOBS, EVENTS, "ANALYZE"):
            connection.exec_driver_sql(statement)
        explained = event._query(Mark.JOBS, 100).compile(connection, compile_kwargs={"literal_binds": True})
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN (ANALYZE, TIMING off) {explained}").scalars())

    shown = await database.write(plan)
    assert "Index Scan using jobs_pkey" in shown
    assert max(map(int, re.findall(r"actual rows=(\d+)", shown))) == 100, "3,000 wait, and all were read"


async def test_an_intake_reads_only_the_jobs_that_others_have_stored(database):
    """The server knows nothing yet of a table that has just grown. It took the pending jobs for few, and read all."""

    def plan(connection):
        for statement in (JOBS, EVENTS):
            connection.exec_driver_sql(statement.replace("3000", "30000"))
        bound = new_pending._NEW.params(event=29_990, until=29_995)
        explained = bound.compile(connection, compile_kwargs={"literal_binds": True})
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN {explained}").scalars())

    shown = await database.write(plan)
    assert "Index Scan using job_events_pkey" in shown
    assert "Index Scan using jobs_pkey" in shown


async def test_the_scheduler_reads_only_new_events(database):
    """The server would take a third of all events for new ones, as long as it has no statistics of them."""

    def plan(connection):
        for statement in (JOBS, EVENTS):
            connection.exec_driver_sql(statement.replace("3000", "30000"))
        bound = job_end._HAPPENED.params(revision=29_990)
        explained = bound.compile(connection, compile_kwargs={"literal_binds": True})
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN {explained}").scalars())

    assert "Seq Scan" not in await database.write(plan)


async def test_a_query_that_fails_before_the_commit_leaves_no_doubt(database):
    def slow_at_the_end(connection, _):
        note(connection)
        connection.exec_driver_sql("SET LOCAL statement_timeout TO 20")

    with pytest.raises(Unavailable) as caught:
        await database.write_observed("SELECT pg_sleep(count(*)) FROM node_events", slow_at_the_end)
    assert caught.value.code == "storage_failed"
    await database.write(note)
    assert await database.read(numbers) == [1]


@pytest.mark.parametrize("query", ["SELECT 1 WHERE false", "SELECT generate_series(1, 2)"])
async def test_a_query_without_one_row_fails_before_the_work(database, query):
    with pytest.raises(ValueError, match="one row"):
        await database.write_observed(query, lambda connection, _: note(connection))
    assert await database.read(numbers) == []


async def test_more_works_than_in_a_file_share_a_transaction(database):
    commits = []

    async def committed(*_):
        commits.append(1)

    group = GroupCommit(database, None, committed, committed)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(MAX_GROUP + 1):
            tasks.create_task(group.do(note))
        await asyncio.sleep(0)
        for _ in range(2):
            await group.run_once()
    assert len(commits) == 2
    assert await database.read(numbers) == list(range(1, MAX_GROUP + 2))

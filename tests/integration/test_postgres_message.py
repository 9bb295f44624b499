"""Transactions whose beginning and end have no messages of their own, with a real server."""

import asyncio

import psycopg
import pytest
from builder import NOW
from psycopg.pq import TransactionStatus
from watch import PATIENCE_S

from rankd.core.errors import Unavailable
from rankd.store.engine.bulk import bulk_insert, stream, unread
from rankd.store.engine.postgres_connection import READING, driver_of
from rankd.store.engine.postgres_message import answer
from rankd.store.record.node import record_node_event


def pid(connection):
    return connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()


def note(connection):
    record_node_event(connection, "n1", "joined", NOW, "root")


def n_noted(connection):
    return connection.exec_driver_sql("SELECT count(*) FROM node_events").scalar_one()


def state(url, session):
    """What the server says of this session."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT state, backend_xmin FROM pg_stat_activity WHERE pid = %s", (session,))
        return found.fetchone()


async def test_a_read_ends_on_the_server_although_nobody_waits_for_it(url, database):
    session = await database.read(pid)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await asyncio.to_thread(state, url, session)) != ("idle", None):
            assert found[0] in ("active", "idle in transaction", "idle")
            await asyncio.sleep(0.02)
    assert await database.read(pid) == session, "the connection is used again"


async def test_a_read_sees_what_was_committed_before_it(database):
    for number in range(1, 20):
        await database.write(note)
        assert await database.read(n_noted) == number


async def test_every_transaction_has_the_isolation_and_the_settings_of_its_kind(database):
    names = "transaction_isolation", "transaction_read_only", "jit", "synchronous_commit"
    shown = lambda c: [c.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]  # noqa: E731
    for _ in range(4):  # at the third time they are prepared
        assert await database.read(shown) == ["repeatable read", "on", "off", "on"]
        assert await database.write(shown) == ["read committed", "off", "off", "on"]
        assert await database.write(shown, brief=True) == ["read committed", "off", "off", "on"]


async def test_a_slow_writer_may_be_idle_for_longer(database):
    idle = lambda c: c.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one()  # noqa: E731
    for _ in range(4):
        assert await database.write(idle) == "30s"
        assert await database.write(idle, brief=True) == "2s"


async def test_a_transaction_without_a_statement(database):
    assert await database.read(lambda _: 1) == 1
    assert await database.write(lambda _: 2) == 2
    assert await database.write(lambda _: 3, brief=True) == 3
    assert await database.read(n_noted) == 0


async def test_a_first_statement_that_fails_leaves_nothing_behind(database):
    def fails(connection):
        connection.exec_driver_sql("SELECT 1 / 0")

    def fails_later(connection):
        note(connection)
        fails(connection)

    for _ in range(4):
        for run in (database.read, database.write):
            with pytest.raises(Exception, match="division by zero"):
                await run(fails)
        with pytest.raises(Exception, match="division by zero"):
            await database.write(fails_later)
    await database.write(note)
    assert await database.read(n_noted) == 1


async def test_a_transaction_that_begins_with_a_copy_or_a_cursor_of_the_server(database):
    rows = [(f"k{number}", number) for number in range(20)]
    await database.write(lambda c: bulk_insert(c, "last_ids", ("name", "id"), rows), brief=True)
    query = "SELECT name, id FROM last_ids WHERE name LIKE 'k%' ORDER BY id"
    assert await database.read(lambda c: [row for part in stream(c, query, (), 7) for row in part]) == rows

    def by_the_server(connection):
        with driver_of(connection).cursor("named") as cursor:
            cursor.execute(query)
            return cursor.fetchall()

    assert await database.read(by_the_server) == rows
    assert await database.read(by_the_server) == rows


async def test_a_session_that_is_lost_between_two_reads_is_replaced(url, database):
    session = await database.read(pid)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, %s)", (session, int(PATIENCE_S * 1_000)))
    with pytest.raises(Unavailable) as error:
        await database.read(pid)
    assert error.value.code == "storage_failed"
    assert await database.read(pid) != session


async def test_the_settings_of_reads_are_those_of_the_session(database):
    def session(connection):
        return driver_of(connection).session

    assert await database.read(session) == READING.settings


async def test_statements_that_nobody_reads_are_sent_at_once_and_in_their_order(database):
    """The server would wait without a limit for the rest of a writer that was paused in between, with all its locks."""
    sent = []

    def work(connection):
        driver = driver_of(connection)
        with unread(connection):
            for number in range(3):
                connection.exec_driver_sql("INSERT INTO last_ids VALUES (?, ?)", (f"k{number}", number))
            sent.append(driver.pgconn.transaction_status)
            found = answer(driver, "SELECT count(*) FROM last_ids WHERE name LIKE 'k%'")
            connection.exec_driver_sql("UPDATE last_ids SET id = id + ? WHERE name LIKE 'k%'", (10,))
            sent.append(driver.pgconn.transaction_status)
        return found, connection.exec_driver_sql("SELECT id FROM last_ids WHERE name LIKE 'k%' ORDER BY id").all()

    assert await database.write(work) == ([(3,)], [(10,), (11,), (12,)])
    assert sent[0] == TransactionStatus.INTRANS, "something was sent before the end"


async def test_an_error_among_statements_that_nobody_reads_is_raised_and_nothing_is_stored(database):
    def work(connection):
        with unread(connection):
            connection.exec_driver_sql("INSERT INTO last_ids VALUES ('k', 1)")
            connection.exec_driver_sql("UPDATE last_ids SET id = id / 0")
            connection.exec_driver_sql("INSERT INTO last_ids VALUES ('l', 1)")

    for _ in range(4):
        with pytest.raises(Exception, match="division by zero"):
            await database.write(work)
    assert await database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM last_ids").scalar_one()) == 0

from contextlib import closing

import pytest
from builder import new_database
from sqlalchemy import select

from rankd.store.engine.bulk import bulk_insert, bulk_replace, bulk_update, change_numbered, replace_numbered, stream
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.sqlite_bulk import AT_ONCE
from rankd.store.engine.url import open_database
from rankd.store.schema.generation_table import ranking_head

INTO = "node_events", ("node", "event", "at", "actor")
QUERY = "SELECT node, event, at, actor FROM node_events ORDER BY id"


@pytest.fixture
async def database(tmp_path):
    async with open_database(new_database(tmp_path), durable=False) as opened:
        yield opened


def rows_of(number):
    return [(f"node-{row}", "x", float(row), f"actor-{row % 3}") for row in range(number)]


@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 59, 250, 2 * sum(AT_ONCE) + 7])
async def test_rows_are_inserted_whole_and_in_their_order(database, n_rows):
    rows = rows_of(n_rows)
    await database.write(lambda c: bulk_insert(c, *INTO, rows))
    assert await database.read(lambda c: [tuple(row) for row in c.exec_driver_sql(QUERY)]) == rows


@pytest.mark.parametrize("n_rows", [0, 1, 10, 259])
async def test_an_update_changes_these_columns_of_these_rows_and_no_other(database, n_rows):
    await database.write(lambda c: bulk_insert(c, *INTO, rows_of(300)))
    changes = [(f"new-{row}", -1.0, row + 1) for row in range(n_rows)]
    await database.write(lambda c: bulk_update(c, "node_events", ["node", "at"], changes))
    expected = [(f"new-{row}", "x", -1.0, actor) for row, (*_, actor) in enumerate(rows_of(300))][:n_rows]
    assert await database.read(lambda c: list(map(tuple, c.exec_driver_sql(QUERY)))) == expected + rows_of(300)[n_rows:]


async def test_whole_rows_take_the_place_of_those_with_the_same_keys(database):
    await database.write(lambda c: bulk_replace(c, ranking_head, [(1, 10), (2, 20)]))
    await database.write(lambda c: bulk_replace(c, ranking_head, [(2, 21), (3, 30)]))
    assert await database.read(ranked) == [(1, 10), (2, 21), (3, 30)]


async def test_values_are_numbered_and_take_the_place_of_those_with_the_same_numbers(database):
    await database.write(lambda c: replace_numbered(c, ranking_head, 1, "[10,20]"))
    await database.write(lambda c: replace_numbered(c, ranking_head, 2, "[21,30]"))
    await database.write(lambda c: replace_numbered(c, ranking_head, 9, "[]"))
    assert await database.read(ranked) == [(1, 10), (2, 21), (3, 30)]
    await database.write(lambda c: change_numbered(c, ranking_head, 2, "[21,31]"))
    assert await database.read(ranked) == [(1, 10), (2, 21), (3, 31)]


def ranked(connection):
    return [tuple(row) for row in connection.execute(select(ranking_head).order_by(ranking_head.c.rank))]


async def test_a_stream_yields_every_row_in_batches(database):
    rows = rows_of(25)
    await database.write(lambda c: bulk_insert(c, *INTO, rows))
    batches = await database.read_in_thread(lambda c: list(stream(c, QUERY, batch=10)))
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert [row for batch in batches for row in batch] == rows
    found = await database.read_in_thread(lambda c: list(stream(c, "SELECT node FROM node_events WHERE at > ?", (23,))))
    assert found == [[("node-24",)]]


async def test_a_stream_sees_the_state_of_its_transaction(database):
    await database.write(lambda c: bulk_insert(c, *INTO, rows_of(20)))

    def read(connection):
        batches = stream(connection, QUERY, batch=5)
        first = next(batches)
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute("DELETE FROM node_events")
        return first + [row for batch in batches for row in batch]

    assert await database.read_in_thread(read) == rows_of(20)


async def test_a_stream_that_is_given_up_leaves_a_usable_connection(database):
    await database.write(lambda c: bulk_insert(c, *INTO, rows_of(20)))
    assert len(await database.read_in_thread(lambda c: next(stream(c, QUERY, batch=5)))) == 5
    assert len(await database.read_in_thread(lambda c: list(stream(c, QUERY, batch=5)))) == 4


def test_the_widest_statement_has_no_more_values_than_sqlite_takes():
    widest = 60
    with closing(sqlite3.connect(":memory:")) as connection:
        rows = ", ".join([f"({', '.join('?' * widest)})"] * max(AT_ONCE))
        values = [0] * widest * max(AT_ONCE)
        assert len(connection.execute(f"VALUES {rows}", values).fetchall()) == max(AT_ONCE)

import sqlite3

import pytest
from builder import new_database

from rankd.store.engine.database import Database
from rankd.store.engine.rows import AT_ONCE, insert_rows

INTO = "INSERT INTO node_events (node, event, at, actor)"


@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 59, 250, 2 * sum(AT_ONCE) + 7])
async def test_rows_are_inserted_whole_and_in_their_order(tmp_path, n_rows):
    rows = [(f"node-{row}", "x", float(row), f"actor-{row % 3}") for row in range(n_rows)]
    async with Database(new_database(tmp_path), durable=False) as database:
        await database.write(lambda c: insert_rows(c, INTO, rows))
        query = "SELECT node, event, at, actor FROM node_events ORDER BY id"
        assert await database.read(lambda c: [tuple(row) for row in c.exec_driver_sql(query)]) == rows


def test_the_widest_statement_has_no_more_values_than_sqlite_takes():
    widest = 60
    with sqlite3.connect(":memory:") as connection:
        assert max(AT_ONCE) * widest <= connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)

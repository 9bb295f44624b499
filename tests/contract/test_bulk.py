"""Whole rows at once: rows with the same keys are replaced."""

import pytest
from sqlalchemy import select

from rankd.store.engine.bulk import bulk_replace, unread
from rankd.store.schema.generation_table import ranking_head

MANY = 100
"""Statements of several sizes replace them."""


@pytest.mark.parametrize("number", [3, MANY])
async def test_whole_rows_take_the_place_of_those_with_the_same_keys(store, number):
    first = [(rank, rank + 100) for rank in range(1, number + 1)]
    second = [(rank, rank + 500) for rank in range(number, 2 * number)]
    for rows in (first, second):
        await store.write(bulk_replace, ranking_head, rows)
    assert await store.read(stored) == first[:-1] + second


def stored(connection):
    return [tuple(row) for row in connection.execute(select(ranking_head).order_by(ranking_head.c.rank))]


async def test_an_error_of_statements_without_answers_leaves_nothing(store):
    def write(connection):
        with unread(connection):
            bulk_replace(connection, ranking_head, [(1, 7)])
            connection.exec_driver_sql("INSERT INTO ranking_head (rank, job_id) VALUES (2, NULL)").close()
            bulk_replace(connection, ranking_head, [(3, 9)])

    with pytest.raises(Exception, match=r"(?i)null"):
        await store.write(write)
    assert await store.read(stored) == []

"""Whole rows at once: rows with the same keys are replaced, also where none were expected."""

import pytest
from sqlalchemy import select

from rankd.store.engine.bulk import bulk_replace
from rankd.store.schema.generation_table import ranking_head

MANY = 40
"""More than PostgreSQL gets one by one."""


@pytest.mark.parametrize("are_new", [True, False])
async def test_whole_rows_take_the_place_of_those_with_the_same_keys(store, are_new):
    first = [(rank, rank + 100) for rank in range(1, MANY + 1)]
    second = [(rank, rank + 500) for rank in range(MANY, 2 * MANY)]
    for rows in (first, second):
        await store.write(bulk_replace, ranking_head, rows, are_new=are_new)
    assert await store.read(stored) == first[:-1] + second


def stored(connection):
    return [tuple(row) for row in connection.execute(select(ranking_head).order_by(ranking_head.c.rank))]

"""Transactions that begin and end with a query: its row before, under the lock of all writers, and its row after."""

import pytest
from builder import NOW
from sqlalchemy.exc import DBAPIError

from rankd.core.errors import RoleLost, Unavailable
from rankd.store.record.node import record_node_event

QUERY = "SELECT count(*), coalesce(max(id), 0) FROM node_events"


def note(connection, found):
    record_node_event(connection, "n1", "joined", NOW, "root")
    return tuple(found)


async def n_noted(store):
    return len(await store.rows("node_events"))


async def test_the_row_before_and_the_row_after(store):
    for number in range(5):  # at the third time, a server prepares what it may
        assert await store.database.write_observed(QUERY, note, brief=True) == (
            (number, number),
            (number + 1, number + 1),
        )
        assert await n_noted(store) == number + 1


async def test_nothing_is_stored_if_the_work_fails(store):
    def fails(connection, found):
        note(connection, found)
        raise LookupError

    with pytest.raises(LookupError):
        await store.database.write_observed(QUERY, fails)
    assert await store.database.write_observed(QUERY, note) == ((0, 0), (1, 1))


async def test_nothing_is_stored_if_the_query_fails_at_the_end(store):
    def hide(connection, found):
        note(connection, found)
        connection.exec_driver_sql("ALTER TABLE node_events RENAME TO hidden")

    with pytest.raises((DBAPIError, Unavailable)):
        await store.database.write_observed(QUERY, hide)
    assert await n_noted(store) == 0


async def test_only_the_holder_of_a_role_writes(store):
    await store.database.take_role("intake", NOW)
    assert await store.database.write_observed(QUERY, note, role="intake") == ((0, 0), (1, 1))
    await store.database.write(lambda c: c.exec_driver_sql("UPDATE roles SET epoch = epoch + 1"))
    with pytest.raises(RoleLost):
        await store.database.write_observed(QUERY, note, role="intake")
    assert await n_noted(store) == 1

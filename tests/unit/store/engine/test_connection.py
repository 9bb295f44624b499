"""The first look at a database, which may have no tables yet."""

import pytest
from builder import new_database

from rankd.core.errors import Unavailable
from rankd.store.engine.connection import needs_tables, ping
from rankd.store.engine.url import open_database
from rankd.store.record.configuration import newest_recorded


async def test_a_database_without_tables_says_what_to_do(tmp_path):
    async with open_database(tmp_path / "empty.db") as database:
        await database.read(ping)
        with pytest.raises(Unavailable, match="`rankd db upgrade` creates its tables") as caught, needs_tables():
            await database.read(lambda c: newest_recorded(c.exec_driver_sql))
    assert caught.value.code == "storage_failed"


async def test_a_database_with_tables_is_read(tmp_path):
    async with open_database(new_database(tmp_path)) as database:
        with needs_tables():
            assert await database.read(lambda c: newest_recorded(c.exec_driver_sql)) is None


def test_other_errors_pass():
    with pytest.raises(ValueError, match="another"), needs_tables():
        raise ValueError("another")

"""What an administrator asks of a database file."""

from contextlib import closing

import pytest
from builder import new_database

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.maintenance import limited_query, state_of
from rankd.store.engine.reading import open_for_reading
from rankd.store.schema.migration import newest_revision

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def connection(tmp_path):
    with closing(open_for_reading(new_database(tmp_path))) as opened:
        yield opened


def test_a_good_database_has_no_problems(tmp_path):
    found = state_of(new_database(tmp_path))
    assert found == (sqlite3.sqlite_version, newest_revision(), "wal", [])


def test_a_database_without_tables_has_no_revision(tmp_path):
    with closing(sqlite3.connect(tmp_path / "empty.db")) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
    assert state_of(tmp_path / "empty.db").revision is None


def test_another_file_is_no_database(tmp_path):
    (tmp_path / "notes.txt").write_text("no database, but long enough to be looked at as one" * 20)
    with pytest.raises(Unavailable) as caught:
        state_of(tmp_path / "notes.txt")
    assert caught.value.code in ("database_unreadable", "no_database")


def test_a_query_gives_names_and_rows(connection):
    assert limited_query(connection, "SELECT 1 AS a, 'x' AS b", 5.0) == (["a", "b"], [(1, "x")])


def test_a_query_that_takes_too_long_is_stopped(connection):
    with pytest.raises(Refused) as caught:
        limited_query(connection, ENDLESS, 0.05)
    assert caught.value.code == "query_too_slow"
    assert "0.05 s" in caught.value.message


@pytest.mark.parametrize("sql", ["SELECT nothing", "DELETE FROM jobs", "SELECT 1; SELECT 2", ""])
def test_only_a_query_that_reads_is_run(connection, sql):
    if sql:
        with pytest.raises(Refused) as caught:
            limited_query(connection, sql, 5.0)
        assert caught.value.code == "bad_query"
    else:
        assert limited_query(connection, sql, 5.0) == ([], [])

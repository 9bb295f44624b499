from contextlib import closing

import pytest

from rankd.store.engine.driver import sqlite3
from rankd.store.engine.wal import read_log

CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


@pytest.fixture(params=[512, 4096])
def connection(request, tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as opened:
        opened.execute(f"PRAGMA page_size = {request.param}")
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("PRAGMA wal_autocheckpoint = 0")
        opened.execute("CREATE TABLE t (text TEXT)")
        yield opened


def insert(connection, count):
    with connection:
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 300,)] * count)


def test_as_many_pages_are_counted_as_sqlite_says(connection, tmp_path):
    """Also where the log began anew, and older pages are still behind those of now."""
    salts = set()
    for count in (400, 3, 90, 1, 700):
        insert(connection, count)
        log = read_log(tmp_path / "x.db-wal")
        salts.add(log.salts)
        assert log.frames == connection.execute(CHECKPOINT).fetchone()[1]
    assert len(salts) == 5


def test_without_a_log_there_is_nothing(tmp_path):
    assert read_log(tmp_path / "x.db-wal").frames == 0
    (tmp_path / "x.db-wal").touch()
    assert read_log(tmp_path / "x.db-wal").frames == 0

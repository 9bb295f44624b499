"""Reading without SQLAlchemy: rows as dictionaries, and errors that say what to do."""

from contextlib import closing

import pytest
from builder import new_database

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.reading import fetch, has_view, open_for_reading, tuples


@pytest.fixture
def connection(tmp_path):
    with closing(open_for_reading(new_database(tmp_path))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("column", "stored", "expected"),
    [
        ("resources", "'{\"vcore\": 1}'", {"vcore": 1}),
        ("nodelist", "'[\"n1\"]'", ["n1"]),
        ("nodelist", "'n[1-3]'", "n[1-3]"),
        ("detail", "'{broken'", "{broken"),
        ("resources", "NULL", None),
        ("held", "1", True),
        ("held", "NULL", None),
        ("cancel_if_unmet", "1", True),
        ("cancel_if_unmet", "0", False),
        ("cancel_if_unmet", "NULL", None),
        ("name", "'{\"vcore\": 1}'", '{"vcore": 1}'),
    ],
)
def test_columns_are_decoded_by_their_names(connection, column, stored, expected):
    assert fetch(connection, f"SELECT {stored} AS {column}") == [{column: expected}]


def test_parameters_and_order_are_kept(connection):
    rows = fetch(connection, "SELECT value FROM json_each(?) WHERE value > ? ORDER BY value DESC", ["[1, 2, 3]", 1])
    assert rows == [{"value": 3}, {"value": 2}]
    assert tuples(connection, "SELECT 1 AS a, 2 AS b") == [(1, 2)]


def test_a_database_of_another_version_says_what_to_do(connection):
    for sql in ("SELECT x FROM missing", "SELECT missing FROM jobs"):
        with pytest.raises(Unavailable, match="rankd db upgrade") as caught:
            fetch(connection, sql)
        assert caught.value.code == "no_schema"


def test_a_number_that_is_too_large_is_refused(connection):
    with pytest.raises(Refused) as caught:
        fetch(connection, "SELECT ? AS a", [2**64])
    assert caught.value.code == "bad_field"


def test_a_file_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable) as caught:
        open_for_reading(tmp_path / "none.db")
    assert caught.value.code == "no_database"
    assert not (tmp_path / "none.db").exists()


def test_a_reader_can_not_write_and_sees_one_state(tmp_path):
    path = new_database(tmp_path)
    with closing(open_for_reading(path)) as reader, closing(sqlite3.connect(path)) as writer:
        assert fetch(reader, "SELECT count(*) AS n FROM qos") == [{"n": 0}]
        with writer:
            writer.execute("INSERT INTO qos VALUES (1, 'normal', 5, NULL, 1.0)")
        assert fetch(reader, "SELECT count(*) AS n FROM qos") == [{"n": 0}]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM qos")


def test_a_view_is_known_by_its_name(connection):
    assert has_view(connection, "job")
    assert not has_view(connection, "jobs"), "that is a table"
    assert not has_view(connection, "job_priority"), "the first generation makes it"

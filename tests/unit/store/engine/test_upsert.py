"""Insert rows, or change those that are there."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, select

from rankd.store.engine.upsert import upsert

things = Table(
    "things",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("size", Integer),
    Column("colour", Text, server_default="grey"),
)


@pytest.fixture
def connection():
    with create_engine("sqlite://").connect() as connection:
        things.create(connection)
        upsert(connection, things, ["name"], [{"name": "a", "size": 1, "colour": "red"}])
        yield connection


def rows(connection):
    return [tuple(row) for row in connection.execute(select(things).order_by(things.c.name))]


def test_new_rows_are_inserted_and_known_ones_changed(connection):
    upsert(connection, things, ["name"], [{"name": "a", "size": 2}, {"name": "b", "size": 3}])
    assert rows(connection) == [("a", 2, "red"), ("b", 3, "grey")]


def test_columns_that_are_kept_count_for_new_rows_only(connection):
    new = [{"name": name, "size": 5, "colour": "blue"} for name in ("a", "b")]
    upsert(connection, things, ["name"], new, kept=("colour",))
    assert rows(connection) == [("a", 5, "red"), ("b", 5, "blue")]


def test_a_row_of_which_everything_is_kept_stays(connection):
    new = [{"name": "a", "size": 7}, {"name": "a", "size": 8}, {"name": "b", "size": 9}]
    upsert(connection, things, ["name"], new, kept=("size",))
    assert rows(connection) == [("a", 1, "red"), ("b", 9, "grey")]


def test_without_rows_nothing_happens(connection):
    upsert(connection, things, ["name"], [])
    assert rows(connection) == [("a", 1, "red")]

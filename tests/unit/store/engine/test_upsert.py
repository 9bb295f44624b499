"""Insert rows, or change those that are there."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, create_engine, func, insert, select

from rankd.store.engine.upsert import add_sums, insert_missing, upsert

things = Table(
    "things",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("size", Integer),
    Column("colour", Text, server_default="grey"),
)

runs = Table("runs", things.metadata, Column("thing", Text), Column("size", Integer), Column("colour", Text))
days = Table(
    "days", things.metadata, Column("name", Text, primary_key=True), Column("runs", Integer), Column("size", Integer)
)
RUNS_OF = runs.c.thing == bindparam("of")


@pytest.fixture
def connection():
    with create_engine("sqlite://").connect() as connection:
        things.metadata.create_all(connection)
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


def test_rows_of_a_query_are_inserted_unless_their_key_is_known(connection):
    connection.execute(insert(runs), [{"thing": name, "size": 9, "colour": "blue"} for name in "abb"])
    query = select(runs.c.thing, runs.c.size, runs.c.colour)
    for name in "ab":
        insert_missing(connection, things, query.where(RUNS_OF), {"of": name})
    assert rows(connection) == [("a", 1, "red"), ("b", 9, "blue")]


def test_sums_of_a_query_are_added_to_those_that_are_there(connection):
    connection.execute(insert(runs), [{"thing": "a", "size": size} for size in (3, 4)])
    query = select(runs.c.thing, func.count(), func.sum(runs.c.size)).where(RUNS_OF).group_by(runs.c.thing)
    for name, expected in (("a", (2, 7)), ("none", (2, 7)), ("a", (4, 14))):
        add_sums(connection, days, query, {"of": name})
        assert connection.execute(select(days)).one() == ("a", *expected)

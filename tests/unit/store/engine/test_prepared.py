"""A statement for many rows of parameters changes what SQLAlchemy's own execution changes."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, create_engine, delete, insert, select, update

from rankd.store.engine.prepared import run_each

things = Table(
    "things", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text), Column("size", Integer)
)
CHANGE = (
    update(things)
    .where(things.c.id == bindparam("of"), things.c.size < 100, things.c.name != "n3")
    .values(name=bindparam("called"), size=None)
)
GONE = delete(things).where(things.c.id == bindparam("id"), things.c.size == bindparam("size"))


@pytest.fixture
def connection():
    with create_engine("sqlite://").connect() as connection:
        things.create(connection)
        connection.execute(insert(things), [{"id": n, "name": f"n{n}", "size": 10 * n} for n in range(1, 6)])
        yield connection


def rows(connection):
    return [tuple(row) for row in connection.execute(select(things).order_by(things.c.id))]


def test_a_change_runs_for_each_row(connection):
    given = [{"of": 2, "called": "two"}, {"called": None, "of": 4}, {"of": 3, "called": "x"}, {"of": 77, "called": "x"}]
    run_each(connection, CHANGE, given)
    assert rows(connection) == [(1, "n1", 10), (2, "two", None), (3, "n3", 30), (4, None, None), (5, "n5", 50)]


def test_other_parameters_are_left_out(connection):
    run_each(connection, GONE, [{"id": n, "size": 10 * n, "more": "x"} for n in (1, 2, 3)])
    run_each(connection, GONE, [{"id": 4, "size": 0}])
    run_each(connection, GONE, [])
    assert [id_ for id_, *_ in rows(connection)] == [4, 5]


def test_a_parameter_that_is_missing_is_an_error(connection):
    with pytest.raises(KeyError, match="called"):
        run_each(connection, CHANGE, [{"of": 2}])

"""A list as a table in a statement: any length, one statement."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, insert, literal, select, true
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.exc import CompileError

from rankd.store.engine.listed import elements_of, length_of, listed, number_of, text_of, value_of, values_of, written
from rankd.store.engine.word import TEXTS, VALUES

things = Table("things", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text))


@pytest.fixture
def connection():
    with create_engine("sqlite://").connect() as connection:
        things.create(connection)
        connection.execute(insert(things), [{"id": number, "name": f"n{number}"} for number in range(1, 6)])
        yield connection


@pytest.mark.parametrize(
    ("wanted", "found"), [([], []), ([2, 9, 4], [2, 4]), (range(4, 100_000), [4, 5]), ({1}, [1]), (iter([3]), [3])]
)
def test_numbers(connection, wanted, found):
    query = select(things.c.id).where(things.c.id.in_(values_of("wanted"))).order_by(things.c.id)
    assert connection.execute(query, {"wanted": wanted}).scalars().all() == found


def test_texts_with_quotes_and_accents(connection):
    connection.execute(insert(things), [{"id": 9, "name": 'it\'s é "x"'}])
    query = select(things.c.id).where(things.c.name.in_(values_of("names", TEXTS)))
    assert connection.execute(query, {"names": ['it\'s é "x"', "n7"]}).scalars().all() == [9]


def test_a_join_keeps_the_order_of_the_list(connection):
    wanted = listed("wanted")
    query = select(things.c.name).join_from(wanted, things, things.c.id == wanted.c.value)
    assert connection.execute(query, {"wanted": [5, 1, 8, 3]}).scalars().all() == ["n5", "n1", "n3"]


def test_the_statement_is_the_same_for_any_length():
    text = str(values_of("ids").compile(dialect=sqlite.dialect()))
    assert text.count("?") == 1


def test_a_database_that_has_no_such_table_says_so():
    with pytest.raises(CompileError, match="no default compilation handler"):
        values_of("ids").compile(dialect=mysql.dialect())


def test_elements_of_a_column_stand_beside_their_row(connection):
    connection.execute(insert(things), [{"id": 9, "name": '["a", {"job": 7}]'}, {"id": 10, "name": "[]"}])
    of = elements_of(things.c.name, VALUES)
    query = select(things.c.id, of.c.value).join_from(things, of, true()).where(things.c.id > 5)
    assert connection.execute(query).all() == [(9, "a"), (9, '{"job":7}')]


def test_items_and_the_length_of_json():
    value = literal('[{"job": 7}, "b"]')
    query = select(text_of(value, "$[1]"), number_of(value, "$[0].job"), value_of(value, "$[5]"), length_of(value))
    with create_engine("sqlite://").connect() as connection:
        assert connection.execute(query).one() == ("b", 7, None, 2)


def test_pairs_are_found_by_their_items(connection):
    pairs = listed("pairs", VALUES)
    wanted = (things.c.id == number_of(pairs.c.value, "$[0]")) & (things.c.name == text_of(pairs.c.value, "$[1]"))
    query = select(things.c.id).join_from(pairs, things, wanted)
    assert connection.execute(query, {"pairs": [(1, "n1"), (2, "n3"), (3, "n3")]}).scalars().all() == [1, 3]


def test_written_values_are_no_parameters(connection):
    query = select(things.c.id).where(things.c.name.in_(written("n2", "n3"))).order_by(things.c.id)
    assert "IN ('n2', 'n3')" in str(query.compile(dialect=sqlite.dialect()))
    assert connection.execute(query).scalars().all() == [2, 3]

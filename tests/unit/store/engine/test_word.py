"""Words for statements that are text, run by the driver."""

import json
from contextlib import closing

import pytest

from rankd.store.engine.driver import sqlite3
from rankd.store.engine.word import IN_NUMBERS, JOIN_IN_ORDER, TEXTS, elements, listed, unindexed


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:")) as opened:
        opened.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, kind TEXT, parts TEXT)")
        opened.execute("CREATE TABLE kinds (name TEXT PRIMARY KEY)")
        opened.execute("CREATE INDEX things_kind ON things (kind)")
        rows = [(number, f"k{number % 2}", json.dumps([number, number + 1])) for number in range(1, 6)]
        opened.executemany("INSERT INTO things VALUES (?, ?, ?)", rows)
        yield opened


def plan(connection, sql, *parameters):
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]


def test_a_list_is_one_parameter(connection):
    sql = f"SELECT id FROM things WHERE id {IN_NUMBERS} ORDER BY id"
    assert connection.execute(sql, [json.dumps([9, 4, 2])]).fetchall() == [(2,), (4,)]
    assert connection.execute(f"SELECT key, value FROM {listed(TEXTS)}", ['["a", "b"]']).fetchall() == [
        (0, "a"),
        (1, "b"),
    ]


def test_elements_stand_beside_their_row(connection):
    sql = f"SELECT t.id, e.key, e.value FROM things t, {elements('t.parts', 'e')} WHERE t.id = 5"
    assert connection.execute(sql).fetchall() == [(5, 0, 5), (5, 1, 6)]


def test_a_join_in_order_reads_its_left_side_first(connection):
    tables = ["things t", "kinds k"]
    for left, right in (tables, tables[::-1]):
        steps = plan(connection, f"SELECT 1 FROM {left} {JOIN_IN_ORDER} {right} ON k.name = t.kind")
        assert [step.split()[1] for step in steps] == [left[-1], right[-1]]


def test_no_index_serves_an_unindexed_column(connection):
    assert "things_kind" in plan(connection, "SELECT parts FROM things WHERE kind = ?", "k1")[0]
    assert plan(connection, f"SELECT parts FROM things WHERE {unindexed('kind')} = ?", "k1") == ["SCAN things"]

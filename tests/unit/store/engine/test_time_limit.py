"""A reading that takes too long is interrupted, and nothing after it is."""

import pytest

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.reading import fetch
from rankd.store.engine.time_limit import time_limit

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


def one_after_the_other(reader, *queries):
    for query in queries:
        fetch(reader, query)


def test_a_query_without_an_end_is_interrupted_and_the_connection_stays_usable():
    reader = sqlite3.connect(":memory:")
    with pytest.raises(Unavailable, match=r"longer than 0\.02 s") as found, time_limit(reader, 0.02):
        fetch(reader, ENDLESS)
    assert found.value.code == "database_unreadable"
    assert fetch(reader, "SELECT 1 AS one") == [{"one": 1}]


def test_a_limit_that_passes_between_two_queries_ends_the_next_one():
    reader = sqlite3.connect(":memory:")
    with pytest.raises(Unavailable, match="takes the database longer"), time_limit(reader, 0.0):
        one_after_the_other(reader, "SELECT 1 AS one", ENDLESS)


def test_other_errors_are_raised_unchanged():
    reader = sqlite3.connect(":memory:")
    with pytest.raises(Unavailable, match="no such table"), time_limit(reader, 60.0):
        fetch(reader, "SELECT 1 FROM there_is_none")
    with pytest.raises(Refused, match="mine"), time_limit(reader, 60.0):
        raise Refused("x", "mine")

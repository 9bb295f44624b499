"""Which events a follower gets, and that the search for them reads no more than it has to."""

import random

import pytest
from unit.store.sample_database import make_database

from rankd.core.errors import Refused
from rankd.store.engine.driver import sqlite3
from rankd.store.look.event_list import DISORDER_S, MOST_LOOKED_AT, events_behind
from rankd.wire.message import EventsRequest

INTO = "INSERT INTO job_events (id, job_id, event, state, at, actor) VALUES (?, 1, 'submit', 'pending', ?, 'alice')"


@pytest.fixture
def connection(tmp_path):
    opened = sqlite3.connect(make_database(tmp_path / "rankd.db"))
    opened.execute("DELETE FROM job_events")
    yield opened
    opened.close()


def found(connection, **wanted):
    return events_behind(connection, EventsRequest(**wanted))


@pytest.mark.parametrize(
    "wanted", [{}, {"users": ["alice"]}, {"users": ["alice"], "jobs": [1]}, {"since": 5.0, "users": ["alice"]}]
)
@pytest.mark.parametrize("analysed", [False, True])
def test_primary_keys_serve_the_search(connection, wanted, analysed):
    connection.executemany(INTO, ((number, float(number)) for number in range(1, 500)))
    if analysed:
        connection.execute("ANALYZE")
    statements = []
    connection.set_trace_callback(statements.append)
    found(connection, after=1, **wanted)
    connection.set_trace_callback(None)
    for statement in statements:
        plan = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        scans = {step for step in plan if step.startswith("SCAN")} - {"SCAN CONSTANT ROW"}
        assert not [step for step in scans if "json_each" not in step], plan
        assert not any("USING INDEX" in step or "TEMP B-TREE" in step for step in plan), plan
    [search] = [statement for statement in statements if "JOIN" in statement]
    plan = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {search}")]
    assert "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in plan
    assert "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)" in plan


@pytest.mark.parametrize("seed", range(20))
def test_a_time_is_found_among_gaps_and_events_out_of_order(connection, seed):
    drawn = random.Random(seed)
    events = [
        (number, number * 10.0 + drawn.uniform(-0.4, 0.4) * DISORDER_S)
        for number in range(1, 2_000)
        if drawn.random() < 0.3
    ]
    connection.executemany(INTO, events)
    for _ in range(20):
        since = drawn.uniform(-100.0, 21_000.0)
        expected = [number for number, at in events if at >= since]
        answer = found(connection, since=since)
        assert [row["id"] for row in answer.rows] == expected
        assert answer.last == events[-1][0]


def test_one_request_looks_through_a_bounded_number_of_ids(connection):
    connection.executemany(INTO, [(1, 1.0), (500_000, 2.0), (500_000 + MOST_LOOKED_AT, 3.0)])
    assert found(connection, after=1, users=["bob"]) == ([], 500_000 + MOST_LOOKED_AT - 1, True)
    answer = found(connection, after=1)
    assert ([row["id"] for row in answer.rows], answer.more) == ([500_000], True)
    assert [row["id"] for row in found(connection, after=answer.last).rows] == [500_000 + MOST_LOOKED_AT]


@pytest.mark.parametrize("after", [2**63, -(2**64)])
def test_an_id_beyond_64_bits_is_refused(connection, after):
    with pytest.raises(Refused):
        found(connection, after=after)

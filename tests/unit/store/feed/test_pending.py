"""Packed columns come out as they went in, over the whole range of each."""

from contextlib import closing

import numpy as np
from builder import new_database
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.ranking.columns import NO_GROUP
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN
from rankd.store.engine.driver import sqlite3
from rankd.store.feed.pending import PENDING, pending_jobs

IDS = st.integers(1, 2**31 - 1)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "association_id": IDS,
            "queue_id": IDS,
            "qos_id": st.integers(1, 2**30),
            "application_id": st.one_of(st.none(), IDS),
            "class_value": st.one_of(st.integers(INT32_MIN, INT32_MAX), st.sampled_from([INT32_MIN, INT32_MAX, -1, 0])),
            "urgency": st.integers(0, 31),
            "blocked_by": st.sampled_from([None, "dependency"]),
            "shape": st.integers(0, 2**63 - 1),
            "time_limit_s": st.one_of(st.none(), st.floats(0.001, 1e9)),
            "submitted_at": st.floats(0, 1e10),
            "eligible_at": st.one_of(st.none(), st.floats(0, 1e10)),
            "fixed_priority": st.one_of(st.none(), st.integers(INT32_MIN, INT32_MAX)),
        }
    ),
    max_size=5,
)


@given(ROWS)
def test_what_is_packed_is_read_as_it_was(rows):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT DEFAULT 'pending', association_id,"
                           " queue_id, qos_id, application_id, class_value, urgency, blocked_by, shape, time_limit_s,"
                           " submitted_at, eligible_at, fixed_priority)")  # fmt: skip
        for row in rows:
            names = ", ".join(row)
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", list(row.values()))
        found = pending_jobs([connection.execute(PENDING).fetchall()])
    assert found.ids.tolist() == list(range(1, len(rows) + 1))
    columns = {
        "association_id": found.associations, "queue_id": found.queues, "qos_id": found.qos, "shape": found.shapes,
        "class_value": found.class_values, "urgency": found.urgencies, "submitted_at": found.submitted_at,
    }  # fmt: skip
    for name, column in columns.items():
        assert column.tolist() == [row[name] for row in rows]
    assert found.applications.tolist() == [row["application_id"] or NO_GROUP for row in rows]
    assert found.blocked.tolist() == [row["blocked_by"] is not None for row in rows]
    optional = {
        "time_limit_s": found.time_limits_s, "eligible_at": found.eligible_at, "fixed_priority": found.fixed_priorities
    }  # fmt: skip
    for name, column in optional.items():
        assert [None if np.isnan(value) else value for value in column.tolist()] == [row[name] for row in rows]


def test_the_tables_columns_are_those_that_are_read(tmp_path):
    with closing(sqlite3.connect(new_database(tmp_path))) as connection:
        assert connection.execute(PENDING).fetchall() == []

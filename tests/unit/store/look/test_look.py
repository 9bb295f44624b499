import pytest
from unit.store.sample_database import GENERATION, GIB, NOW, WEIGHTS, make_database

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.reading import open_for_reading
from rankd.store.look import job_list
from rankd.store.look.job_detail import job_detail, job_events
from rankd.store.look.job_list import jobs
from rankd.store.look.node_list import nodes
from rankd.store.look.priority_list import head, priorities, weights
from rankd.store.look.queue_list import queues
from rankd.store.look.share_list import shares
from rankd.wire.message import JobFilter


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return make_database(tmp_path_factory.mktemp("look") / "rankd.db")


@pytest.fixture
def reader(path):
    connection = open_for_reading(path)
    yield connection
    connection.close()


@pytest.fixture
def unranked(tmp_path):
    connection = open_for_reading(make_database(tmp_path / "rankd.db", ranked=False))
    yield connection
    connection.close()


def ids(rows):
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (JobFilter(), [1, 2, 3, 4, 5, 6]),
        (JobFilter(id=4), [4]),
        (JobFilter(ids=[5, 1, 77]), [1, 5]),
        (JobFilter(ids=[]), []),
        (JobFilter(id=4, ids=[5]), [4, 5]),
        (JobFilter(users=["bob"]), [2]),
        (JobFilter(users=["bob", "alice"], names=["two", "one"]), [1, 2]),
        (JobFilter(accounts=["physics"], states=["running"]), [4]),
        (JobFilter(states=["pending"]), [1, 2, 3, 6]),
        (JobFilter(states=["pending", "completed"]), [1, 2, 3, 5, 6]),
        (JobFilter(queues=["ROOT.b"]), [2]),
        (JobFilter(partitions=["elsewhere"]), []),
        (JobFilter(users=["x' OR 1=1 --"]), []),
        (JobFilter(limit=2), [5, 6]),
        (JobFilter(limit=2, after=1), [2, 3]),
    ],
)
def test_all_conditions_of_a_filter_hold_and_lists_are_alternatives(reader, wanted, expected):
    assert ids(jobs(reader, wanted)) == expected


def test_a_list_may_be_longer_than_sqlite_has_parameters(reader):
    assert ids(jobs(reader, JobFilter(ids=list(range(2, 100_000))))) == [2, 3, 4, 5, 6]


def test_active_states_are_found_by_the_partial_index(path):
    statements = []
    connection = sqlite3.connect(path)
    connection.set_trace_callback(statements.append)
    jobs(connection, JobFilter(states=["pending", "running"]))
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    connection.close()
    assert any("jobs_state" in step[3] for step in plan), plan


def test_jobs_come_decoded_and_in_the_users_units(reader):
    (job,) = jobs(reader, JobFilter(id=6))
    assert job["resources"] == {"vcore": 1.5, "memory": GIB}
    assert job["depends_on"] == [{"type": "afterok", "job": 4}]
    assert job["held"] is False


def test_only_ranked_jobs_have_a_rank_and_a_priority(reader):
    rows = jobs(reader, JobFilter())
    assert {row["id"]: (row["rank"], row["priority"]) for row in rows} == {
        1: (2, 5000), 2: (1, 7540), 3: (None, None), 4: (None, None), 5: (None, None), 6: (None, None),
    }  # fmt: skip


def test_ranks_of_many_jobs_are_those_of_few(reader, monkeypatch):
    few = jobs(reader, JobFilter())
    monkeypatch.setattr(job_list, "FEW", 0)  # the same six jobs, read as so many are
    assert jobs(reader, JobFilter()) == few


def test_a_job_is_what_was_submitted_and_what_became_of_it(reader):
    job = job_detail(reader, 1)
    assert job["command"] == ["sleep", "1"]
    assert (job["user"], job["account"], job["queue"], job["state"]) == ("alice", "physics", "root.a", "pending")
    assert job["stdout"] == "out.txt", "no agent has said where it went: as asked for"
    assert job["resources"] == {"vcore": 1.5, "memory": GIB}
    assert "request" not in job


def test_a_pending_jobs_breakdown_adds_up(reader):
    breakdown = job_detail(reader, 2)["priority_breakdown"]
    assert (breakdown["rank"], breakdown["generation"], breakdown["ranked_at"]) == (1, GENERATION, NOW)
    assert [factor["name"] for factor in breakdown["factors"]] == list(WEIGHTS)
    total = 0.0
    for factor in breakdown["factors"]:
        assert factor["points"] == factor["weight"] * factor["value"]
        total += factor["points"]
    assert total == breakdown["points_sum"]
    assert breakdown["priority"] == breakdown["class_value"] + int(total) == 7540


def test_a_job_that_does_not_wait_has_no_breakdown(reader):
    assert "priority_breakdown" not in job_detail(reader, 4)


def test_an_unknown_job_is_refused(reader):
    with pytest.raises(Refused, match="there is no job 99") as caught:
        job_detail(reader, 99)
    assert (caught.value.code, caught.value.status) == ("unknown_job", 404)


def test_priorities_come_by_rank_with_factors_in_summing_order(reader):
    rows = priorities(reader, JobFilter())
    assert ids(rows) == [2, 1, 3, 6]
    assert [list(row) for row in rows] == [list(rows[0])] * 4
    assert not set(rows[0]) & {"age", "age_points", "user_factor", "user_points"}
    assert rows[0]["user"] == "bob"


def test_a_job_that_came_after_the_pass_is_initial_and_has_no_points(reader):
    (late,) = priorities(reader, JobFilter(id=6))
    assert late["override"] == "initial"
    assert [factor["points"] for factor in late["factors"]] == [None, None, None]


def test_the_head_is_the_ranked_jobs_only(reader):
    assert ids(head(reader, 10)) == [2, 1]
    assert ids(head(reader, 1)) == [2]


def test_weights_are_the_newest_generations_in_order(reader):
    assert list(weights(reader).items()) == list(WEIGHTS.items())


def test_before_the_first_pass_nothing_is_ranked_and_nothing_fails(unranked):
    assert weights(unranked) == {}
    assert priorities(unranked, JobFilter()) == head(unranked, 5) == []
    assert job_detail(unranked, 1)["priority_breakdown"] is None
    assert {row["rank"] for row in jobs(unranked, JobFilter())} == {None}


def test_history_is_in_order(reader):
    assert [(row["event"], row["actor"]) for row in job_events(reader, 1)] == [("submit", "alice"), ("hold", "root")]
    assert job_events(reader, 99) == []


def test_nodes_tell_what_is_allocated_on_each(reader):
    rows = {row["name"]: row for row in nodes(reader)}
    assert list(rows) == ["n01", "n02", "n03", "n04", "n11"]
    assert rows["n01"]["capacity"] == {"vcore": 4, "memory": 8 * GIB}
    assert (rows["n01"]["allocations"], rows["n01"]["allocated"]) == (1, {"vcore": 1.5})
    assert (rows["n03"]["allocations"], rows["n03"]["allocated"]) == (0, {})
    assert rows["n01"]["labels"] == {"gpu": "a100"}


def test_queues_show_amounts_in_cores(reader):
    rows = {row["path"]: row for row in queues(reader)}
    assert rows["root.a"]["pending"] == {"vcore": 1.5}
    assert rows["root.a"]["max"] == {"vcore": 4}
    assert rows["root.B"]["allocated"] == {}


def test_shares_list_accounts_before_their_users(reader):
    rows = shares(reader)
    assert [(row["account"], row["user"]) for row in rows] == [
        ("physics", None), ("physics", "alice"), ("physics", "bob"), ("root", None),
    ]  # fmt: skip


def test_a_reader_can_not_write(reader):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("DELETE FROM jobs")


def test_a_missing_file_is_unavailable_and_not_made(tmp_path):
    with pytest.raises(Unavailable, match="can't be read"):
        open_for_reading(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_another_programs_database_is_named_as_such(tmp_path):
    sqlite3.connect(tmp_path / "other.db").close()
    (tmp_path / "other.db").touch()
    connection = open_for_reading(tmp_path / "other.db")
    with pytest.raises(Unavailable, match="rankd db upgrade") as caught:
        jobs(connection, JobFilter())
    connection.close()
    assert caught.value.code == "no_schema"

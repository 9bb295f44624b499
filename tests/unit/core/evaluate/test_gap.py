"""What would put a job before another one: every way that is named is checked by evaluating it again."""

import msgspec
import pytest

from rankd.config.evaluation import Evaluator
from rankd.core.evaluate.document import decode
from rankd.core.evaluate.gap import ALL_JOBS_UP_TO, PRECISE_TO, find_ways

NOW = 1_700_000_000.0
MAX_AGE_S = 604_800.0
EVALUATOR = Evaluator()


def decide(document):
    return EVALUATOR.evaluate(msgspec.json.encode(document))


def document(**sections):
    priority = {"max_age_s": MAX_AGE_S, "weights": {"age": 1000, "qos": 500}} | sections.pop("priority", {})
    associations = [{"account": "physics"}, {"account": "physics", "user": "alice"}, {"account": "lab"}]
    associations += [{"account": "lab", "user": "bob"}, {"account": "lab", "user": "alice"}]
    given = {
        "now": NOW,
        "priority": priority,
        "associations": associations,
        "qos": [{"name": "normal"}, {"name": "good", "priority": 20}, {"name": "high", "priority": 100}],
        **sections,
    }
    return decode(msgspec.json.encode(given))


def job(id_, user="alice", account="physics", age_s=0.0, **fields):
    return {"id": id_, "user": user, "account": account, "qos": "normal", "submitted_at": NOW - age_s, **fields}


def ways(state, job_id="mine", other="other"):
    return {(way.kind, way.what): way for way in find_ways(state, job_id, other, decide).ways}


def test_a_qos_that_is_enough_closes_the_gap_and_one_that_is_not_says_what_is_short():
    state = document(jobs=[job("other", "bob", "lab", age_s=0.3 * MAX_AGE_S), job("mine")])
    found = ways(state)
    assert (found["qos", "high"].closes, found["qos", "high"].priority) == (True, 500)
    assert (found["qos", "good"].closes, found["qos", "good"].short) == (False, 200)
    assert ("qos", "normal") not in found


def test_time_closes_it_where_the_others_age_counts_no_more():
    state = document(jobs=[job("other", "bob", "lab", age_s=2 * MAX_AGE_S), job("mine", qos="good")])
    way = ways(state)["time", ""]
    assert way.closes
    exact = 0.9 * MAX_AGE_S  # 100 points of QoS are there already
    assert exact <= way.amount <= exact * (1 + 2 * PRECISE_TO)
    later = decide(msgspec.structs.replace(state, now=NOW + way.amount))
    assert later.ranking == ["mine", "other"]
    sooner = decide(msgspec.structs.replace(state, now=NOW + exact * 0.97))
    assert sooner.ranking == ["other", "mine"]


def test_time_does_not_where_both_age_alike():
    way = ways(document(jobs=[job("other", "bob", "lab", age_s=1000.0), job("mine")]))["time", ""]
    assert not way.closes
    assert way.amount == 28 * 86400


@pytest.mark.parametrize("half_life_s", [86_400.0, None])
def test_usage_says_how_much_may_be_left_and_how_long_that_takes(half_life_s):
    associations = [
        {"account": "physics"},
        {"account": "physics", "user": "alice", "usage": 4000.0},
        {"account": "lab"},
        {"account": "lab", "user": "bob", "usage": 2100.0},
    ]
    priority = {"weights": {"fairshare": 10_000}, "fairshare": {"half_life_s": half_life_s}}
    state = document(priority=priority, associations=associations, jobs=[job("other", "bob", "lab"), job("mine")])
    way = ways(state)["usage", ""]
    assert (way.closes, way.amount) == (True, 0.5)
    assert way.seconds == half_life_s


def test_other_queues_are_tried_where_admission_lets_the_user():
    leaf = {"properties": {"priority.offset": "1000"}}
    root = {
        "name": "root",
        "submitacl": "*",
        "queues": [{"name": "a"}, {"name": "fast", **leaf}, {"name": "deep", "queues": [{"name": "x"}]}],
    }
    state = document(
        queues={"partitions": [{"name": "default", "queues": [root]}]},
        jobs=[job("other", "bob", "lab", age_s=1000.0, queue="root.a"), job("mine", queue="root.a")],
    )
    found = ways(state)
    assert found["queue", "root.fast"].closes
    assert not found["queue", "root.deep.x"].closes
    assert ("queue", "root.deep") not in found


def test_other_accounts_of_the_user_are_tried():
    associations = [
        {"account": "physics"},
        {"account": "physics", "user": "alice", "usage": 9000.0},
        {"account": "lab", "shares": 9},
        {"account": "lab", "user": "alice"},
        {"account": "lab", "user": "bob", "usage": 10.0},
    ]
    priority = {"weights": {"fairshare": 10_000}}
    state = document(priority=priority, associations=associations, jobs=[job("other", "bob", "lab"), job("mine")])
    assert ways(state)["account", "lab"].closes


def test_in_a_long_queue_the_two_are_compared_alone():
    crowd = [job(f"j{number}", "bob", "lab") for number in range(ALL_JOBS_UP_TO)]
    needed = job("first", state="completed")
    mine = job("mine", depends_on=[{"type": "afterok", "job": "first"}])
    state = document(jobs=[job("other", "bob", "lab", age_s=1000.0), needed, mine, *crowd])
    gap = find_ways(state, "mine", "other", decide)
    assert gap.jobs == 2
    assert {(way.what, way.closes) for way in gap.ways if way.kind == "qos"} == {("good", True), ("high", True)}


def test_what_access_lists_keep_from_the_user_is_not_proposed():
    queues = [{"name": "a"}, {"name": "urgent", "submitacl": "bob", "properties": {"priority.offset": "1000"}}]
    root = {"name": "root", "queues": [{**queues[0], "submitacl": "*"}, queues[1]]}
    state = document(
        qos=[{"name": "normal"}, {"name": "good", "priority": 50}, {"name": "high", "priority": 100, "users": ["bob"]}],
        queues={"partitions": [{"name": "default", "queues": [root]}]},
        jobs=[
            job("other", "bob", "lab", age_s=1000.0, queue="root.a", class_value=0),
            job("mine", queue="root.a", class_value=0, priority_class="system-node-critical"),
        ],
    )
    found = ways(state)
    assert ("qos", "good") in found
    assert ("qos", "high") not in found
    assert ("queue", "root.urgent") not in found
    others = {(way.kind, way.what) for way in find_ways(state, "other", "mine", decide).ways}
    assert {("qos", "high"), ("queue", "root.urgent")} <= others

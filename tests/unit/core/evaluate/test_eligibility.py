"""Which jobs are ranked, and the one reason why the others are not."""

import pytest

NOW = 1_700_000_000.0


def waits(kind, job=9):
    return {"depends_on": [{"type": kind, "job": job}]}


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"held": True}, "held"),
        ({"urgency": 0}, "held"),
        ({"held": True, "eligible_at": NOW - 1, **waits("afterok")}, "held"),
        ({**waits("after"), "begin_at": NOW + 1}, "dependency"),
        ({"begin_at": NOW + 1}, "begin time"),
        ({"begin_at": NOW + 1, "eligible_at": NOW - 1}, "begin time"),
        ({"eligible_at": None}, "not eligible"),
        ({"eligible_at": NOW + 1}, "not eligible"),
    ],
)
def test_a_job_that_is_not_eligible_has_its_reason_and_no_rank(decide, job, reason):
    row = decide(jobs=[{"id": 1, **job}]).by_id[1]
    assert (row["reason"], row["rank"]) == (reason, None)
    assert row["factors"][0]["value"] == 0.0  # it does not age


@pytest.mark.parametrize(
    ("state", "met"),
    [
        ("pending", set()),
        ("allocated", set()),
        ("running", {"after"}),
        ("completed", {"after", "afterany", "afterok"}),
        ("failed", {"after", "afterany", "afternotok"}),
        ("timeout", {"after", "afterany", "afternotok"}),
        ("cancelled", {"after", "afterany", "afternotok"}),
        ("node_lost", {"after", "afterany", "afternotok"}),
    ],
)
def test_dependencies_are_met_by_the_other_jobs_state(decide, state, met):
    kinds = ("after", "afterany", "afterok", "afternotok")
    decision = decide(jobs=[{"id": 9, "state": state}, *({"id": kind, **waits(kind)} for kind in kinds)])
    assert {kind for kind in kinds if decision.by_id[kind]["rank"]} == met


def test_a_job_that_is_not_known_meets_nothing(decide):
    assert decide(jobs=[{"id": 1, **waits("afterany", "gone")}]).reason(1) == "dependency"


def test_a_requeued_job_that_began_once_has_begun(decide):
    decision = decide(jobs=[{"id": 9, "started_at": NOW - 5, "eligible_at": None}, {"id": 1, **waits("after")}])
    assert decision["ranking"] == [1]


@pytest.mark.parametrize(
    ("job", "age_s"),
    [
        ({"submitted_at": NOW - 100}, 100),
        ({"submitted_at": NOW - 100, "eligible_at": NOW - 40}, 40),
        ({"submitted_at": NOW - 100, "begin_at": NOW - 30}, 30),
        ({"submitted_at": NOW - 100, "begin_at": NOW - 300}, 100),
        ({}, 0),
        ({"eligible_at": NOW - 604800 * 2}, 604800),
    ],
)
def test_a_job_ages_since_it_was_eligible(decide, job, age_s):
    assert decide(jobs=[{"id": 1, **job}]).factor(1, "age")["value"] == age_s / 604800


def test_running_and_ended_jobs_have_no_row(decide):
    jobs = [{"id": state, "state": state} for state in ("running", "allocated", "completed")]
    assert decide(jobs=jobs)["jobs"] == []


def test_jobs_that_are_not_eligible_do_not_count_as_pending(decide):
    decision = decide(jobs=[{"id": 1, "held": True, "class_value": 9}, {"id": 2, "begin_at": NOW + 1}])
    assert decision.by_path["root.default"]["priority"] is None
    assert decision.by_path["root"]["pending"] == {}
    assert decision["queue_order"] == decision["application_order"] == {}


# --- arrays, tasks, singletons ----------------------------------------------------------------------------------------

TASKS = [
    {"id": "A", "array": "2-3"},
    {"id": 20, "array_job": "A", "array_task": 0, "state": "completed"},
    {"id": 21, "array_job": "A", "array_task": 1, "state": "failed"},
]


@pytest.mark.parametrize(
    ("kind", "job", "reason"),
    [
        ("afterok", "A_0", None),
        ("afterok", "A_1", "dependency never satisfied"),
        ("afterok", "A_2", "dependency"),
        ("afterok", "A_9x", "dependency"),
        ("afterok", "A", "dependency never satisfied"),
        ("afternotok", "A", "dependency"),
        ("afterany", "A_1", None),
    ],
)
def test_tasks_and_arrays_are_awaited_by_their_names(decide, kind, job, reason):
    decision = decide(jobs=[*TASKS, {"id": 1, **waits(kind, job)}])
    assert (decision.reason(1) if not decision.by_id[1]["rank"] else None) == reason


def test_of_an_array_by_index_only_the_tasks_may_start_whose_counterparts_completed(decide):
    nodes = [{"name": "n1", "capacity": {"vcore": 64}}]
    waiting = {"id": "B", "array": "0-3", **waits("aftercorr", "A")}
    decision = decide(jobs=[*TASKS, waiting], nodes=nodes)
    assert [row["task"] for row in decision["allocations"] if row["job"] == "B"] == [0]
    given = decide(jobs=[*TASKS, {**waiting, "eligible_tasks": "2-3"}], nodes=nodes)
    assert [row["task"] for row in given["allocations"] if row["job"] == "B"] == [2, 3]
    alone = {"id": "C", "array": "1", **waits("aftercorr", "A")}
    assert decide(jobs=[*TASKS, alone]).reason("C") == "dependency never satisfied"


def test_a_singleton_waits_for_earlier_jobs_of_its_user_and_name_in_the_list(decide):
    single = {"user": "alice", "name": "s", "depends_on": [{"type": "singleton"}]}
    jobs = [{"id": 1, "user": "alice", "name": "s"}, {"id": 2, **single}, {"id": 3, **single, "user": "bob"}]
    assert decide(jobs=jobs)["ranking"] == [1, 3]
    assert decide(jobs=[{**jobs[0], "state": "completed"}, *jobs[1:]])["ranking"] == [2, 3]
    assert decide(jobs=[jobs[1], jobs[0]])["ranking"] == [2, 1]

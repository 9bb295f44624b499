"""Applications inside a leaf: which go on, in which order, and what that makes of the ranking."""

import pytest

NOW = 1_700_000_000.0
CLASS = {"policy": "class"}


def leaf(**properties):
    return {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "queues": [
                            {
                                "name": "a",
                                "properties": {name.replace("_", "."): value for name, value in properties.items()},
                            }
                        ],
                    }
                ],
            }
        ]
    }


def app(id, age=0.0, state="running", **fields):
    return {"id": id, "queue": "root.a", "created_at": NOW - age, "state": state, **fields}


def job(id, application, value=0, **fields):
    return {"id": id, "application": application, "queue": "root.a", "class_value": value, **fields}


def decided(decide, applications, jobs, **properties):
    return decide(applications=applications, jobs=jobs, queues=leaf(**properties), priority=CLASS)


def order(decision):
    return decision["application_order"].get("root.a")


# --- fifo ---------------------------------------------------------------------------------------------------


def test_applications_go_by_their_best_jobs_priority_then_by_age(decide):
    apps = [app("young", 1), app("old", 9), app("urgent", 0)]
    jobs = [job(1, "young", 5), job(2, "old", 5), job(3, "old", -5), job(4, "urgent", 7)]
    decision = decided(decide, apps, jobs)
    assert order(decision) == ["urgent", "old", "young"]
    assert decision["ranking"] == [4, 2, 1, 3]


def test_where_priority_is_disabled_applications_go_by_age_and_jobs_inside_them_by_priority(decide):
    jobs = [job(1, "young", 9), job(2, "old", 1), job(3, "old", 5)]
    decision = decided(decide, [app("young", 1), app("old", 9)], jobs, application_sort_priority="disabled")
    assert order(decision) == ["old", "young"]
    assert decision["ranking"] == [3, 2, 1]


def test_of_the_same_age_own_jobs_come_first_then_numbers_then_texts(decide):
    apps = [app("b"), app("a"), app(10), app(9)]
    jobs = [job(place, name) for place, name in enumerate(("b", "a", 10, 9))]
    own = [job(5, None, submitted_at=NOW), job(4, None, submitted_at=NOW)]
    decision = decided(decide, apps, [*jobs, *own])
    assert order(decision) == [5, 4, 9, 10, "a", "b"]
    assert decision["ranking"] == [5, 4, 3, 2, 1, 0]


def test_an_application_that_is_not_listed_begins_with_its_first_job(decide):
    jobs = [
        job(1, "x", submitted_at=NOW - 1), job(2, "y", submitted_at=NOW - 5),
        job(3, "x", submitted_at=NOW - 9, state="running"),
    ]  # fmt: skip
    assert order(decided(decide, [app("z", 7)], [*jobs, job(4, "z")])) == ["x", "z", "y"]


def test_the_same_id_in_another_queue_is_another_application(decide, tree):
    jobs = [{"id": place, "queue": f"root.{name}", "application": "x"} for place, name in enumerate("ab")]
    decision = decide(jobs=jobs, queues=tree({"name": "a"}, {"name": "b"}))
    assert decision["application_order"] == {"root.a": ["x"], "root.b": ["x"]}


def test_the_same_queue_in_another_partition_has_applications_of_its_own(decide, refuse):
    root = {"name": "root", "queues": [{"name": "a"}]}
    queues = {"partitions": [{"name": "one", "queues": [root]}, {"name": "two", "queues": [root]}]}
    jobs = [{"id": place, "queue": "root.a", "partition": place, "application": "x"} for place in ("one", "two")]
    listed = [
        {"id": "x", "queue": "root.a", "partition": "two", "created_at": NOW - 9},
        {"id": "x", "queue": "root.a", "created_at": NOW},
    ]
    assert decide(jobs=jobs, queues=queues, applications=listed)["application_order"] == {
        "root.a": ["x"], "two:root.a": ["x"],
    }  # fmt: skip
    listed[1]["partition"] = "three"
    assert refuse(queues=queues, applications=listed) == ["$.applications[1].queue"]


# --- fair ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({"x": {"vcore": 3}, "y": {"vcore": 2}}, ["z", "y", "x"]),
        ({"x": {"vcore": 2, "memory": 10}, "y": {"vcore": 2, "memory": 30}}, ["z", "x", "y"]),  # the second largest
        ({"x": {"vcore": 2}, "y": {"vcore": 1, "memory": 30}}, ["z", "x", "y"]),  # 2/10, 30/100
        ({"x": {"vcore": 2}, "y": {"memory": 20}, "z": {"vcore": 2}}, ["x", "y", "z"]),  # all 0.2: by age
        ({"x": {"gpu": 2}, "y": {"vcore": 9}}, ["z", "y", "x"]),  # nobody has gpu: by itself
    ],
)
def test_fair_leaves_go_by_usage_from_the_largest_share_down(decide, used, expected):
    ages = {"x": 9, "y": 5, "z": 1}
    decision = decide(
        applications=[app(name, age, used=used.get(name)) for name, age in ages.items()],
        jobs=[job(place, name) for place, name in enumerate(ages)],
        nodes=[{"name": "n", "capacity": {"vcore": 10, "memory": 100}}],
        queues=leaf(application_sort_policy="fair"),
        priority=CLASS,
    )
    assert order(decision) == expected
    assert decision["ranking"] == ["xyz".index(name) for name in expected]


def test_in_fair_leaves_priority_goes_before_usage_unless_disabled(decide):
    apps = [app("idle"), app("busy", used={"vcore": 5})]
    jobs = [job(1, "idle", 1), job(2, "busy", 2)]
    assert order(decided(decide, apps, jobs, application_sort_policy="fair")) == ["busy", "idle"]
    disabled = {"application_sort_policy": "fair", "application_sort_priority": "disabled"}
    assert order(decided(decide, apps, jobs, **disabled)) == ["idle", "busy"]


def test_an_application_uses_what_its_jobs_hold(decide):
    jobs = [job(1, "x"), job(2, "y"), job(3, "x", state="running"), job(4, None)]
    decision = decide(
        applications=[app("x", 9), app("y", 5)], jobs=jobs, priority=CLASS,
        nodes=[{"name": "n", "capacity": {"vcore": 10}}], allocations=[{"job": 3, "node": "n"}],
        queues=leaf(application_sort_policy="fair"),
    )  # fmt: skip
    assert order(decision) == ["y", 4, "x"]


# --- stateaware ---------------------------------------------------------------------------------------------

STATEAWARE = {"application_sort_policy": "stateaware"}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"a": "running", "b": "running"}, ["a", "b"]),
        ({"a": "accepted", "b": "accepted", "c": "running"}, ["a", "c"]),  # one accepted, the oldest
        ({"a": "accepted", "b": "starting", "c": "running"}, ["b", "c"]),  # one that starts keeps accepted ones out
        ({"a": "starting", "b": "starting", "c": "Running"}, ["a", "c"]),
        ({"a": "new", "b": "completing", "c": "accepted"}, ["c"]),
    ],
)
def test_stateaware_lets_in_one_new_application_at_a_time(decide, states, expected):
    apps = [app(name, 9 - place, state) for place, (name, state) in enumerate(states.items())]
    jobs = [job(place, name) for place, name in enumerate(states)]
    decision = decided(decide, apps, jobs, **STATEAWARE)
    assert order(decision) == expected
    assert decision["ranking"] == ["abc".index(name) for name in expected]


def test_a_job_of_an_application_that_is_kept_out_has_a_priority_and_waits(decide):
    decision = decided(decide, [app("s", 9, "starting"), app("w", 5, "accepted")], [job(1, "w", 7)], **STATEAWARE)
    row = decision.by_id[1]
    assert (row["priority"], row["rank"], row["reason"]) == (7, None, "application waiting")
    assert order(decision) == []
    assert decision["ranking"] == []
    assert decision.by_path["root.a"]["priority"] == 7  # it is pending all the same


def test_the_accepted_one_is_that_of_the_highest_priority_where_priority_counts(decide):
    apps = [app("old", 9, "accepted"), app("urgent", 5, "accepted"), app("idle", 99, "accepted")]
    jobs = [job(1, "old", 1), job(2, "urgent", 2)]
    assert order(decided(decide, apps, jobs, **STATEAWARE)) == ["urgent"]
    assert order(decided(decide, apps, jobs, **STATEAWARE, application_sort_priority="disabled")) == ["old"]


def test_other_policies_do_not_look_at_states(decide):
    apps = [app("a", 9, "accepted"), app("b", 5, "starting")]
    assert order(decided(decide, apps, [job(1, "a"), job(2, "b")])) == ["a", "b"]


def test_a_job_without_an_application_is_always_let_in(decide):
    decision = decided(decide, [app("s", 9, "starting")], [job(1, None), job(2, "s")], **STATEAWARE)
    assert decision["ranking"] == [2, 1]

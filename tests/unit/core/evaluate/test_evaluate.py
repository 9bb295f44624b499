"""Priorities in results: factors and what replaces them, policies, overrides, clamping."""

import math

import numpy as np
import pytest

from rankd.config.evaluation import Evaluator
from rankd.core.evaluate.document import decode
from rankd.core.evaluate.evaluate import Surroundings, evaluate
from rankd.core.ranking.factor import Per
from rankd_plugins.factors.age import Age

NOW = 1_700_000_000.0
INT32_MAX = 2**31 - 1
NODES = [{"name": f"n{i}", "capacity": {"vcore": 8, "gpu": 2}} for i in range(4)]


def weights(**given):
    return {"weights": {name.replace("__", "."): weight for name, weight in given.items()}}


# --- the sum ------------------------------------------------------------------------------------------------


def test_points_add_up_to_the_priority(decide):
    jobs = [{"id": 1, "class_value": 7, "eligible_at": NOW - 1000, "urgency": 3, "user": "alice"}]
    row = decide(jobs=jobs, nodes=NODES).by_id[1]
    assert [factor["name"] for factor in row["factors"]] == ["age", "fairshare", "qos", "queue", "size", "user"]
    assert all(factor["points"] == factor["weight"] * factor["value"] for factor in row["factors"])
    assert row["priority"] == 7 + math.trunc(sum(factor["points"] for factor in row["factors"]))


@pytest.mark.parametrize(
    ("class_value", "weight", "value", "priority"),
    [
        (INT32_MAX, 1000, 1, INT32_MAX),
        (-(2**31), -1000, 1, -(2**31)),
        (2_000_000_000, 1e300, 1, INT32_MAX),
        (0, 1.9, 1, 1),
        (0, -1.9, 1, -1),  # towards zero
        (5, -1.9, 1, 4),
    ],
)
def test_the_sum_is_truncated_once_and_clamped(decide, class_value, weight, value, priority):
    job = {"id": 1, "class_value": class_value, "factors": {"site": value}}
    assert decide(jobs=[job], priority=weights(site=weight)).by_id[1]["priority"] == priority


# --- given values -------------------------------------------------------------------------------------------


def test_a_given_value_replaces_the_plugins_for_that_job_alone(decide):
    jobs = [{"id": 1, "eligible_at": NOW - 302400, "factors": {"age": 0.25}}, {"id": 2, "eligible_at": NOW - 302400}]
    decision = decide(jobs=jobs, priority=weights(age=1000))
    assert [decision.by_id[id_]["priority"] for id_ in (1, 2)] == [250, 500]


def test_a_given_value_replaces_that_of_a_group(decide):
    jobs = [{"id": 1, "qos": "high", "factors": {"qos": 0.5}}, {"id": 2, "qos": "high"}]
    decision = decide(jobs=jobs, qos=[{"name": "high", "priority": 9}], priority=weights(qos=1000))
    assert [decision.by_id[id_]["priority"] for id_ in (1, 2)] == [500, 1000]


def test_a_factor_that_no_plugin_provides_gets_in_by_the_jobs(decide):
    jobs = [{"id": place, "factors": {"moon": place / 4}} for place in range(4)]
    assert decide(jobs=jobs, priority=weights(moon=100))["ranking"] == [3, 2, 1, 0]


def test_a_factor_that_no_plugin_provides_is_needed_of_every_pending_job(decide, refuse):
    jobs = [{"id": 1, "factors": {"moon": 1}}, {"id": 2}]
    assert refuse(jobs=jobs, priority=weights(moon=100)) == ["$.priority.weights.moon"]
    jobs[1]["state"] = "running"
    assert decide(jobs=jobs, priority=weights(moon=100))["ranking"] == [1]


def test_a_value_without_a_weight_does_nothing(decide):
    jobs = [{"id": 1, "factors": {"site": 0.5, "moon": 0.1}}]
    assert decide(jobs=jobs)["jobs"] == decide(jobs=[{"id": 1}])["jobs"]


@pytest.mark.parametrize(
    ("name", "value"), [("age", 1.1), ("age", -0.1), ("user", 1), ("user", -1.1), ("moon", 2), ("resource.gpu", 2)]
)
def test_a_value_outside_its_range_is_refused(refuse, name, value):
    assert refuse(jobs=[{"id": 1, "factors": {name: value}}]) == [f"$.jobs[0].factors.{name}"]


def test_the_user_factor_may_be_given_below_0(decide):
    job = {"id": 1, "factors": {"user": -0.5}}
    assert decide(jobs=[job], priority=weights(user=100)).by_id[1]["priority"] == -50


# --- factors that are not configured by default -------------------------------------------------------------


def test_the_association_factor_is_relative_to_the_largest(decide):
    users = [{"account": "a", "user": user, "priority": priority} for user, priority in (("x", 10), ("y", 0))]
    rows = [{"account": "a", "priority": 40}, *users]
    jobs = [{"id": user, "user": user} for user in ("x", "y", "z")]
    decision = decide(jobs=jobs, associations=rows, priority=weights(association=100))
    assert [decision.by_id[user]["priority"] for user in "xyz"] == [25, 0, 0]


def test_a_resource_factor_is_what_is_asked_of_the_partitions_total(decide):
    jobs = [{"id": 1, "nodes": 2, "resources": {"vcore": 4, "gpu": 1}}, {"id": 2}]
    decision = decide(jobs=jobs, nodes=NODES, priority=weights(resource__gpu=100, resource__vcore=10))
    assert decision.factor(1, "resource.gpu")["value"] == 2 / 8
    assert decision.factor(1, "resource.vcore")["value"] == 8 / 32
    assert decision.by_id[2]["priority"] == 0


def test_the_size_factor_counts_the_default_time_limit(decide):
    jobs = [{"id": 1, "nodes": 1, "resources": {"vcore": 8}}]
    priority = weights(size=32) | {"size_relative_to_time": True}
    decision = decide(jobs=jobs, nodes=NODES, priority=priority, scheduling={"default_time_limit_s": 120})
    assert decision.factor(1, "size")["value"] == 8 / 2 / 32


# --- policies and overrides ---------------------------------------------------------------------------------


def test_under_the_class_policy_the_class_value_is_the_priority(decide):
    decision = decide(jobs=[{"id": 1, "class_value": -3}], priority={"policy": "class", "weights": {"age": 0}})
    assert (decision.by_id[1]["priority"], decision.by_id[1]["override"]) == (-3, "class")


def test_first_come_first_served_counts_list_positions(decide):
    jobs = [{"id": "a"}, {"id": "b", "queue": "nowhere"}, {"id": "c"}, {"id": "d", "state": "running"}, {"id": "e"}]
    decision = decide(jobs=jobs, priority={"policy": "fcfs"})
    assert {id_: row["priority"] for id_, row in decision.by_id.items()} == {
        "a": INT32_MAX, "c": INT32_MAX - 2, "e": INT32_MAX - 4,
    }  # fmt: skip
    assert {row["override"] for row in decision["jobs"]} == {"fcfs"}


def test_first_come_first_served_counts_sequence_numbers_where_jobs_have_them(decide):
    jobs = [{"id": "a", "sequence": 40}, {"id": "b"}, {"id": "c", "sequence": 100}]
    decision = decide(jobs=jobs, priority={"policy": "fcfs"})
    assert [row["priority"] for row in decision["jobs"]] == [INT32_MAX - 39, INT32_MAX - 40, INT32_MAX - 99]
    assert decision["ranking"] == ["a", "b", "c"]


def test_sequence_numbers_ascend(refuse):
    jobs = [{"id": "a", "sequence": 2}, {"id": "b", "sequence": 2}, {"id": "c"}]
    assert refuse(jobs=jobs) == ["$.jobs[1].sequence"]


@pytest.mark.filterwarnings("error")
def test_weights_next_to_the_largest_number_are_clamped(decide):
    jobs = [{"id": 1, "factors": {"age": 1, "size": 1}}, {"id": 2, "factors": {"age": 0, "size": 0}}]
    decision = decide(jobs=jobs, priority=weights(age=1e308, size=1e308, site=-1e308))
    assert [row["priority"] for row in decision["jobs"]] == [INT32_MAX, 0]


def test_a_fixed_priority_goes_before_policies_and_expedition_before_all(decide):
    jobs = [
        {"id": 1, "fixed_priority": -5, "class_value": 9},
        {"id": 2, "fixed_priority": 5, "urgency": 31, "privileged": True},
    ]
    decision = decide(jobs=jobs, priority={"policy": "class"})
    assert [(row["priority"], row["override"]) for row in decision["jobs"]] == [(-5, "fixed"), (INT32_MAX, "expedited")]


# --- plugins that fail --------------------------------------------------------------------------------------


class Broken:
    name, per, lowest, highest = "broken", Per.JOB, 0.0, 1.0

    def __init__(self, values):
        self.returned = values

    def values(self, _context):
        if isinstance(self.returned, Exception):
            raise self.returned
        return np.array(self.returned, dtype=np.float64)

    def sql(self):
        return None

    def parameters(self):
        return {}


@pytest.mark.parametrize("values", [RuntimeError("out of luck"), [1.0], [], [0.5, 2.0], [0.5, math.nan]])
def test_a_factor_that_fails_counts_0_and_is_warned_about(values):
    document = decode(
        b'{"now": 100, "priority": {"weights": {"broken": 10, "age": 604800}}, "jobs": ['
        b'{"id": 1, "eligible_at": 10}, {"id": 2, "eligible_at": 0, "factors": {"broken": 0.5}}]}'
    )
    factors = {"broken": Broken(values), "age": Age(document.priority)}
    queues = Evaluator()._own_queues
    surroundings = Surroundings(
        catalogue=queues.catalogue,
        factors=factors,
        ranges={},
        node_sorts=queues.node_sorts,
        application_sorts=queues.application_sorts,
    )
    found = evaluate(document, surroundings)
    assert [job.priority for job in found.jobs] == [90, 105]
    assert [warning.code for warning in found.warnings] == ["factor_failed"]


# --- arrays -------------------------------------------------------------------------------------------------


def queues(leaf):
    return {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [{"name": "default"} | leaf]}]}]}


@pytest.mark.parametrize(
    ("leaf", "more", "n_started", "reason"),
    [
        ({}, {}, 4, None),
        ({"maxapplications": 2}, {}, 2, "queue quota"),
        ({"maxapplications": 1}, {"application": "one"}, 4, None),
        ({"limits": [{"users": ["alice"], "maxresources": {"vcore": "3"}}]}, {}, 3, "user limit"),
        ({"limits": [{"users": ["alice"], "maxapplications": 1}]}, {}, 1, "user limit"),
        ({"resources": {"max": {"vcore": "3"}}}, {}, 3, "queue quota"),
    ],
)
def test_tasks_count_as_jobs_in_quotas_and_limits(decide, leaf, more, n_started, reason):
    job = {"id": "a", "user": "alice", "array": "0-3", **more}
    result = decide(jobs=[job], nodes=NODES, queues=queues(leaf))
    assert [(start["job"], start["task"]) for start in result["allocations"]] == [("a", n) for n in range(n_started)]
    assert result.by_id["a"]["reason"] == reason


@pytest.mark.parametrize("leaf", [{}, {"properties": {"application.sort.priority": "disabled"}}])
@pytest.mark.parametrize("policy", ["multifactor", "class", "fcfs"])
def test_tasks_start_in_ascending_index_whatever_orders_the_leaf(decide, leaf, policy):
    own = {"user": "alice", "submitted_at": NOW - 60}
    jobs = [
        {**own, "id": 17, "sequence": 17, "array": "2,4"},
        {"id": 20, "sequence": 20, "user": "alice", "submitted_at": NOW - 50},
        *({**own, "id": n, "sequence": n, "array_job": 17, "array_task": task} for n, task in ((50, 3), (51, 1))),
    ]
    result = decide(jobs=jobs, nodes=NODES, queues=queues(leaf), priority={"policy": policy})
    started = [(start["job"], start.get("task")) for start in result["allocations"]]
    assert started == [(51, None), (17, 2), (50, None), (17, 4), (20, None)]

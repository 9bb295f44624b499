import math

import numpy as np
import pytest
from builder import columns, context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import Per
from rankd.core.ranking.priority import (
    INT32_MAX,
    INT32_MIN,
    FactorValues,
    apply_overrides,
    clamp_sum,
    compute_priorities,
    initial_priority,
    weighted_sum,
)


class Given:
    """A factor whose values are set by the test; an exception instead of values is raised."""

    lowest = -1e300
    highest = 1e300

    def __init__(self, name, values, per=Per.JOB):
        self.name, self.given, self.per = name, values, per

    def values(self, _context):
        if isinstance(self.given, Exception):
            raise self.given
        return np.array(self.given, dtype=np.float64)

    def sql(self):
        return None

    def parameters(self):
        return {}


def priorities_of(context, weights, *factors, last_good=None, **settings):
    return compute_priorities(context, PrioritySettings(weights=weights, **settings), factors, last_good)


def good(outcome):
    """What the prioritizer keeps of a pass: the factors that did not fail."""
    failed = {error.factor for error in outcome.failures}
    return {row.name: row for row in outcome.factors if row.name not in failed}


def row(values, weight, per=Per.JOB):
    keys = np.arange(len(values), dtype=np.int64)
    return FactorValues(name="f", weight=weight, per=per, values=np.array(values, dtype=np.float64), keys=keys)


# --- the sum ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "priority"),
    [
        ((0.6, 0.6), 1),  # 1.2: term by term it would be 0
        ((0.4, 0.4), 0),
        ((-0.6, -0.6), -1),  # towards zero: -1.2 is not -2
        ((-0.6, 0.5), 0),
        ((0.7, 0.7), 1),  # truncated, not rounded
        ((2.5, -0.5), 2),
    ],
)
def test_the_sum_is_truncated_once_and_towards_zero(values, priority):
    given = [Given(name, [value]) for name, value in zip("ab", values, strict=True)]
    outcome = priorities_of(context(job_row()), {"a": 1.0, "b": 1.0}, *given)
    assert outcome.priorities.tolist() == [priority]


def test_truncation_comes_before_the_class_value():
    outcome = priorities_of(context(job_row(class_value=-10)), {"a": 1.0}, Given("a", [0.9]))
    assert outcome.priorities.tolist() == [-10]


@pytest.mark.parametrize("order", [(1e16, 1.0, -1e16), (1.0, 1e16, -1e16), (-1e16, 1e16, 1.0)])
def test_terms_are_added_from_left_to_right_in_configured_order(order):
    names = [f"f{place}" for place in range(len(order))]
    factors = [Given(name, [value]) for name, value in zip(names, order, strict=True)]
    outcome = priorities_of(context(job_row()), dict.fromkeys(names, 1.0), *factors)
    assert outcome.points_sums.tolist() == [(order[0] + order[1]) + order[2]]


def test_without_factors_the_sum_is_nothing():
    outcome = priorities_of(context(job_row(class_value=7)), {})
    assert outcome.points_sums.tolist() == [0.0]
    assert outcome.priorities.tolist() == [7]


def test_summing_leaves_the_values_alone():
    values = row([1.0, 2.0], 3.0)
    jobs = columns(job_row(1), job_row(2))
    first = weighted_sum([values, row([10.0, 10.0], 1.0)], jobs)
    assert first.tolist() == [13.0, 16.0]
    assert values.values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("class_value", "points", "priority"),
    [
        (0, 2147483647.0, INT32_MAX),
        (0, 2147483648.0, INT32_MAX),
        (1, 2147483646.9, INT32_MAX),
        (2, 2147483646.9, INT32_MAX),
        (-1, 2147483648.0, INT32_MAX),
        (-2, 2147483648.0, INT32_MAX - 1),
        (0, -2147483648.9, INT32_MIN),
        (1, -2147483650.0, INT32_MIN),
        (3, -2147483650.0, INT32_MIN + 1),
        (INT32_MAX, 1e300, INT32_MAX),
        (INT32_MIN, -1e300, INT32_MIN),
        (INT32_MIN, math.inf, INT32_MAX),
        (INT32_MAX, -math.inf, INT32_MIN),
    ],
)
def test_priorities_are_clamped_to_32_bits_after_adding_up(class_value, points, priority):
    assert clamp_sum(np.array([class_value]), np.array([points])).tolist() == [priority]


@pytest.mark.parametrize(("group", "value"), [(0, 0.25), (1, 0.75), (-1, 0.0)])
@pytest.mark.parametrize("per", [Per.ASSOCIATION, Per.QOS, Per.QUEUE])
def test_a_job_has_its_groups_value_and_0_without_a_group(per, group, value):
    fields = {Per.ASSOCIATION: "association", Per.QOS: "qos", Per.QUEUE: "queue"}
    jobs = columns(job_row(1, **{fields[per]: group}))
    assert row([0.25, 0.75], 1.0, per).of_jobs(jobs).tolist() == [value]


def test_without_any_group_jobs_have_0():
    assert row([], 1.0, Per.ASSOCIATION).of_jobs(columns(job_row(1, association=-1))).tolist() == [0.0]


# --- overrides ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "fields", "priority"),
    [
        ("multifactor", {}, 105),
        ("multifactor", {"fixed_priority": -3}, -3),
        ("multifactor", {"fixed_priority": 0}, 0),
        ("multifactor", {"urgency": 31}, INT32_MAX),
        ("multifactor", {"urgency": 31, "fixed_priority": 3}, INT32_MAX),
        ("multifactor", {"urgency": 30, "fixed_priority": 3}, 3),
        ("class", {}, 5),
        ("class", {"fixed_priority": 3}, 3),
        ("class", {"urgency": 31}, INT32_MAX),
        ("fcfs", {}, INT32_MAX - 8),
        ("fcfs", {"fixed_priority": 3}, 3),
        ("fcfs", {"urgency": 31, "fixed_priority": 3}, INT32_MAX),
    ],
)
def test_expedition_outranks_a_fixed_priority_and_that_the_policy(policy, fields, priority):
    jobs = context(job_row(9, class_value=5, **fields))
    outcome = priorities_of(jobs, {"a": 1.0}, Given("a", [100.0]), policy=policy)
    assert outcome.priorities.tolist() == [priority]
    assert outcome.points_sums.tolist() == [100.0]  # shown all the same


def test_overrides_of_one_job_leave_the_others_alone():
    jobs = columns(job_row(1, urgency=31), job_row(2, fixed_priority=8), job_row(3))
    assert apply_overrides(jobs, PrioritySettings(), np.array([1, 2, 3])).tolist() == [INT32_MAX, 8, 3]


@pytest.mark.parametrize(
    ("id", "priority"), [(1, INT32_MAX), (2, INT32_MAX - 1), (2**32, INT32_MIN), (2**32 + 1, INT32_MIN)]
)
def test_first_come_is_first_served_down_to_the_lowest_priority(id, priority):
    assert initial_priority(np.array([id])).tolist() == [priority]


# --- factors that fail --------------------------------------------------------------------------------------


def test_a_failed_factor_keeps_its_last_good_values_and_the_others_go_on():
    jobs = context(job_row(1), job_row(2))
    weights = {"a": 10.0, "b": 1.0}
    before = priorities_of(jobs, weights, Given("a", [0.1, 0.2]), Given("b", [1.0, 2.0]))
    after = priorities_of(
        jobs, weights, Given("a", RuntimeError("down")), Given("b", [5.0, 6.0]), last_good=good(before)
    )
    assert after.points_sums.tolist() == [6.0, 8.0]
    assert [error.factor for error in after.failures] == ["a"]


@pytest.mark.parametrize("bad", [[math.nan, 0.0], [1e301, 0.0], [0.0]])
def test_values_that_are_refused_count_as_failed(bad):
    jobs = context(job_row(1), job_row(2))
    last = good(priorities_of(jobs, {"a": 1.0}, Given("a", [3.0, 4.0])))
    outcome = priorities_of(jobs, {"a": 1.0}, Given("a", bad), last_good=last)
    assert outcome.points_sums.tolist() == [3.0, 4.0]
    assert len(outcome.failures) == 1


def test_a_factor_that_never_worked_counts_0():
    outcome = priorities_of(context(job_row()), {"a": 1.0}, Given("a", OSError()))
    assert outcome.points_sums.tolist() == [0.0]


def test_last_good_values_stay_with_their_jobs_when_others_come_and_go():
    before = priorities_of(context(job_row(1), job_row(2), job_row(4)), {"a": 1.0}, Given("a", [1.0, 2.0, 4.0]))
    jobs = context(job_row(2), job_row(3), job_row(4))
    after = priorities_of(jobs, {"a": 1.0}, Given("a", OSError()), last_good=good(before))
    assert after.points_sums.tolist() == [2.0, 0.0, 4.0]


def test_last_good_values_of_groups_survive_a_new_group():
    before = priorities_of(
        context(job_row(1, association=1), fairshares=[0.0, 0.0]), {"a": 1.0}, Given("a", [0.0, 0.7], Per.ASSOCIATION)
    )
    jobs = context(job_row(1, association=1), job_row(2, association=2), fairshares=[0.0, 0.0, 0.0])
    after = priorities_of(jobs, {"a": 1.0}, Given("a", OSError(), Per.ASSOCIATION), last_good=good(before))
    assert after.points_sums.tolist() == [0.7, 0.0]


def test_the_new_weight_holds_for_old_values():
    before = priorities_of(context(job_row()), {"a": 1.0}, Given("a", [0.5]))
    after = priorities_of(context(job_row()), {"a": 100.0}, Given("a", OSError()), last_good=good(before))
    assert after.points_sums.tolist() == [50.0]

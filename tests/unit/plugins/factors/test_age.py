"""Formula: Slurm, "Multifactor Priority Plugin", Age Factor: age / PriorityMaxAge, 1 from there on."""

import doctest

import pytest
from builder import NOW, context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd_plugins.factors import age
from rankd_plugins.factors.age import Age

DAY = 86_400.0


def values(*rows, max_age_s=7 * DAY, now=NOW):
    return evaluate(Age(PrioritySettings(max_age_s=max_age_s)), context(*rows, now=now)).tolist()


@pytest.mark.parametrize(
    ("waited_s", "value"),
    [(0, 0.0), (DAY, 1 / 7), (3.5 * DAY, 0.5), (7 * DAY, 1.0), (7 * DAY + 1, 1.0), (1e9, 1.0), (1, 1 / 604800)],
)
def test_age_grows_with_waiting_up_to_the_maximum_of_seven_days(waited_s, value):
    assert values(job_row(eligible_at=NOW - waited_s)) == [value]


def test_age_counts_from_eligibility_and_not_from_submission():
    assert values(job_row(submitted_at=NOW - 7 * DAY, eligible_at=NOW)) == [0.0]


def test_a_job_that_is_not_eligible_has_no_age():
    assert values(job_row(eligible_at=None)) == [0.0]


def test_a_clock_that_was_set_back_makes_nobody_younger_than_new():
    assert values(job_row(eligible_at=NOW + 3600)) == [0.0]


def test_older_job_never_ranks_below_its_twin():
    older, younger = values(job_row(1, eligible_at=NOW - 20.0), job_row(2, eligible_at=NOW - 10.0), max_age_s=100.0)
    assert older == 0.2
    assert younger == 0.1


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(age).failed == 0

"""Formula: urgency as in Flux (flux-submit(1), --urgency): 0 to 31, 16 by default; here (urgency - 16) / 16."""

import doctest

import pytest
from builder import context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd_plugins.factors import user
from rankd_plugins.factors.user import User


@pytest.mark.parametrize(("urgency", "value"), [(0, -1.0), (8, -0.5), (16, 0.0), (17, 0.0625), (24, 0.5), (31, 0.9375)])
def test_urgency_counts_from_minus_one_to_just_below_one_and_the_default_is_0(urgency, value):
    assert evaluate(User(PrioritySettings()), context(job_row(urgency=urgency))).tolist() == [value]


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(user).failed == 0

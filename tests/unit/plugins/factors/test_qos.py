"""Formula: Slurm, "Multifactor Priority Plugin", Quality of Service Factor: the QoS's priority / the highest."""

import doctest

import pytest
from builder import NAN, context

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd_plugins.factors import qos
from rankd_plugins.factors.qos import Qos


@pytest.mark.parametrize(
    ("priorities", "explicit", "values"),
    [
        ([100, 50, 0], [NAN] * 3, [1.0, 0.5, 0.0]),
        ([0, 0], [NAN] * 2, [0.0, 0.0]),  # all are 0
        ([7], [NAN], [1.0]),
        ([10, 100], [0.9, NAN], [0.9, 1.0]),  # an explicit factor as it is
        ([10, 100], [NAN, 0.0], [0.1, 0.0]),  # 0 is explicit too; the priority beside it still counts as largest
        ([0, 0], [1.0, NAN], [1.0, 0.0]),
        ([1, 3], [NAN, NAN], [1 / 3, 1.0]),
        ([], [], []),
    ],
)
def test_priorities_count_in_relation_to_the_highest_and_explicit_factors_as_they_are(priorities, explicit, values):
    table = context(qos_priorities=priorities, qos_factors=explicit)
    assert evaluate(Qos(PrioritySettings()), table).tolist() == values


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(qos).failed == 0

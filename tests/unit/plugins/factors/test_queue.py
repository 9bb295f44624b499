"""Formula: Slurm, "Multifactor Priority Plugin", Partition Factor: PriorityJobFactor / the largest of all."""

import doctest

import pytest
from builder import NAN, context

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd_plugins.factors import queue
from rankd_plugins.factors.queue import Queue


@pytest.mark.parametrize(
    ("factors", "values"),
    [
        ([1.0, 10.0], [0.1, 1.0]),
        ([NAN, 4.0, 1.0], [0.0, 1.0, 0.25]),  # not set
        ([NAN, NAN], [0.0, 0.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([0.001], [1.0]),
        ([1.0, 3.0], [1 / 3, 1.0]),
        ([], []),
    ],
)
def test_a_queues_factor_counts_in_relation_to_the_largest(factors, values):
    assert evaluate(Queue(PrioritySettings()), context(queue_factors=factors)).tolist() == values


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(queue).failed == 0

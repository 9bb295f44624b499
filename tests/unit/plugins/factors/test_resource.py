"""Formula: Slurm, "Multifactor Priority Plugin", TRES Factors: what the job asks for / the partition's total."""

import doctest

import numpy as np
import pytest
from builder import columns, groups, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import FactorContext, evaluate
from rankd_plugins.factors import resource
from rankd_plugins.factors.resource import Resource

GPU = Resource(PrioritySettings(), "gpu")


def values(totals, shapes, jobs):
    """``jobs`` are (shape, partition)."""
    rows = [job_row(id_, shape=shape, partition=partition) for id_, (shape, partition) in enumerate(jobs, start=1)]
    usual = groups()
    own = {name: getattr(usual, name) for name in usual.__struct_fields__}
    given = type(usual)(**{**own, "partition_totals": totals, "shapes": shapes})
    return evaluate(GPU, FactorContext(now=0.0, jobs=columns(*rows), groups=given)).tolist()


@pytest.mark.parametrize(
    ("totals", "shapes", "jobs", "expected"),
    [
        ([{"gpu": 8}], [{"gpu": 2}, {"vcore": 4}], [(0, 0), (1, 0)], [0.25, 0.0]),
        ([{"gpu": 8}, {"gpu": 4}], [{"gpu": 2}], [(0, 0), (0, 1)], [0.25, 0.5]),
        ([{"gpu": 1}], [{"gpu": 2}], [(0, 0)], [1.0]),  # clipped
        ([{}], [{"gpu": 2}], [(0, 0)], [0.0]),
        ([], [], [], []),
    ],
)
def test_what_is_asked_counts_in_relation_to_the_partitions_total(totals, shapes, jobs, expected):
    assert values(totals, shapes, jobs) == expected


def test_its_name_says_which_resource():
    assert (GPU.name, Resource(PrioritySettings(), "a.b").name) == ("resource.gpu", "resource.a.b")


def test_amounts_beyond_float64_s_whole_numbers_do_not_overflow():
    assert values([{"gpu": 2**62}], [{"gpu": 2**62}], [(0, 0)]) == [1.0]
    assert np.isfinite(values([{"gpu": 1}], [{"gpu": 2**70}], [(0, 0)])).all()


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(resource).failed == 0

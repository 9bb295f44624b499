"""Formulas: Slurm 22.05, src/plugins/priority/multifactor/priority_multifactor.c, set_priority_factors().

    favor large              (min_nodes/N + cpus/C) / 2
    PriorityFavorSmall       ((N - min_nodes)/N + (C - cpus)/C) / 2
    SMALL_RELATIVE_TO_TIME   max(cpus, min_nodes * C/N) / time limit in minutes / C, and 1 minus that for small

all clipped to [0, 1]. A job without a limit is unlimited; Slurm takes the partition's limit for it, if there is one.
"""

import doctest

import pytest
from builder import context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd_plugins.factors import size
from rankd_plugins.factors.size import Size

HOUR = 3600.0


def value(favor, relative, nodes, cores, *, limit_s=None, total_nodes=10.0, total_cores=100.0):
    """Of one job with ``cores`` in all, in a partition of 10 nodes and 100 cores."""
    job = job_row(nodes=nodes, vcore=round(1000 * cores / nodes), time_limit_s=limit_s)
    settings = PrioritySettings(favor=favor, size_relative_to_time=relative)
    (only,) = evaluate(
        Size(settings), context(job, partition_nodes=[total_nodes], partition_cores=[total_cores])
    ).tolist()
    return only


@pytest.mark.parametrize(
    ("nodes", "cores", "large", "small"),
    [
        (1, 1, (1 / 10 + 1 / 100) / 2, (9 / 10 + 99 / 100) / 2),
        (5, 50, 0.5, 0.5),
        (10, 100, 1.0, 0.0),
        (10, 10, (1.0 + 0.1) / 2, (0.0 + 0.9) / 2),
        (1, 0, 0.05, (0.9 + 1.0) / 2),
        (20, 200, 1.0, 0.0),  # more than there is: clipped
    ],
)
def test_size_is_the_mean_of_the_parts_of_nodes_and_cores(nodes, cores, large, small):
    assert value("large", False, nodes, cores) == large
    assert value("small", False, nodes, cores) == small


@pytest.mark.parametrize(
    ("nodes", "cores", "limit_s", "large"),
    [
        (1, 40, 60.0, 40 / 1.0 / 100),  # 40 cores are more than one node's 10
        (4, 4, 60.0, 4 * 100 / 10 / 1.0 / 100),  # 4 nodes' worth of cores are more than 4
        (4, 4, HOUR, 40 / 60.0 / 100),
        (10, 100, 30.0, 1.0),  # 2.0: clipped
        (1, 1, 90.0, 10 / 1.5 / 100),
    ],
)
def test_relative_size_is_the_larger_of_both_per_minute_of_the_limit(nodes, cores, limit_s, large):
    assert value("large", True, nodes, cores, limit_s=limit_s) == large
    assert value("small", True, nodes, cores, limit_s=limit_s) == 1.0 - large


@pytest.mark.parametrize(("favor", "expected"), [("large", 0.0), ("small", 1.0)])
def test_without_a_time_limit_a_job_is_as_small_as_can_be_in_relation_to_time(favor, expected):
    assert value(favor, True, 1, 1) == expected


def test_published_extremes_of_slurms_relative_size():
    """https://slurm.schedmd.com/priority_multifactor.html, "Job Size Factor": the whole machine for a minute has 1.0,
    a tiny job with a large time limit close to 0.0; there without relation to time, the whole machine has 1.0 too.
    """
    assert value("large", True, 10, 100, limit_s=60.0) == 1.0
    assert value("large", True, 1, 1, limit_s=365 * 24 * HOUR) < 1e-6
    assert value("large", False, 10, 100) == 1.0


@pytest.mark.parametrize("favor", ["large", "small"])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("totals", [(0.0, 0.0), (5.0, 0.0)])
@pytest.mark.parametrize("limit_s", [HOUR, None])
def test_in_an_empty_partition_size_is_0(favor, relative, totals, limit_s):
    assert value(favor, relative, 1, 1, limit_s=limit_s, total_nodes=totals[0], total_cores=totals[1]) == 0.0


def test_every_job_is_measured_against_its_own_partition():
    jobs = context(
        job_row(1, partition=0), job_row(2, partition=1), partition_nodes=[1.0, 2.0], partition_cores=[1.0, 4.0]
    )
    assert evaluate(Size(PrioritySettings()), jobs).tolist() == [1.0, (1 / 2 + 1 / 4) / 2]


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(size).failed == 0

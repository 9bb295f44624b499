import math

import numpy as np
import pytest
from simulated import a_job, a_site, a_site_of

from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings
from rankd.core.simulate.population import populate
from rankd.core.simulate.statistic import bounded_slowdowns, statistic
from rankd.core.simulate.trace import LeftOut

IDS = {("default", "root"): 0, ("default", "root.default"): 1}
JOBS = [
    a_job(0, 100, 4, user="a", group="x"),
    a_job(0, 50, 4, user="b", group="y"),
    a_job(10, 5, 2, user="b", group="y"),
]
STARTS_S = np.array([0.0, 100.0, 150.0])


def found(starts_s=STARTS_S, fcfs_starts_s=None, site=None):
    work = populate(site or a_site(4), JOBS, IDS)
    return statistic(work, starts_s, LeftOut(no_limit=1), [("default", 4)], FairshareSettings(), fcfs_starts_s)


def test_times_are_those_of_the_jobs():
    own = found()
    assert (own.jobs, own.makespan_s, own.left_out.no_limit) == (3, 155.0, 1)
    assert own.mean_wait_s == pytest.approx((0 + 100 + 140) / 3)
    assert own.p50_wait_s == 100.0
    assert own.p90_wait_s == pytest.approx(132.0)  # between 100 and 140
    assert own.utilisation == pytest.approx((400 + 200 + 10) / (4 * 155))


def test_a_slowdown_is_bounded_for_short_jobs_and_never_below_one():
    assert bounded_slowdowns(np.array([0.0, 90.0, 90.0]), np.array([5.0, 10.0, 1.0])).tolist() == [1.0, 10.0, 9.1]
    assert found().max_bounded_slowdown == pytest.approx(14.5)


def test_a_partition_is_used_as_far_as_its_own_processors_are():
    site = a_site_of({"x": 4, "y": 8, "z": 1})
    jobs = [job._replace(partition=job.group) for job in JOBS]
    ids = {(name, f"root{leaf}"): 0 for name in "xyz" for leaf in ("", ".default")}
    work = populate(site, jobs, ids)
    own = statistic(work, STARTS_S, LeftOut(), [("x", 4), ("y", 8), ("z", 1)], FairshareSettings(), None)
    assert [(one.name, one.jobs, one.processors) for one in own.by_partition] == [("x", 1, 4), ("y", 2, 8)]
    assert [one.utilisation for one in own.by_partition] == [
        pytest.approx(400 / (4 * 155)),
        pytest.approx(210 / (8 * 155)),
    ]
    assert own.utilisation == pytest.approx(610 / (13 * 155))


def test_groups_are_those_of_users_accounts_and_classes():
    own = found()
    assert [(group.name, group.jobs) for group in own.by_user] == [("a", 1), ("b", 2)]
    assert [(group.name, group.mean_wait_s) for group in own.by_account] == [("x", 0.0), ("y", 120.0)]
    assert [(group.name, group.jobs) for group in own.by_size] == [("2-4", 3)]
    assert [(group.name, group.jobs) for group in own.by_run_time] == [("up to 1 min", 2), ("up to 10 min", 1)]


def test_fairness_compares_users_shares_and_first_come_first_served():
    listed = [Association(account="x", shares=3), Association(account="y", shares=1)]
    own = found(fcfs_starts_s=np.array([0.0, 90.0, 150.0]), site=a_site(4, associations=listed)).fairness
    assert [(share.account, share.promised) for share in own.shares] == [("x", 0.75), ("y", 0.25)]
    assert own.shares[0].received == pytest.approx(400 / 610)
    assert (own.later_than_fcfs.jobs, own.later_than_fcfs.mean_s, own.later_than_fcfs.max_s) == (1, 10.0, 10.0)
    means = np.array([1.0, (3.0 + 14.5) / 2])
    assert own.jain_slowdown == pytest.approx(means.sum() ** 2 / (2 * (means**2).sum()))


def test_jobs_that_never_started_are_counted_apart():
    own = found(np.array([0.0, math.nan, math.nan]))
    assert (own.jobs, own.never_started) == (1, 2)
    assert found(np.full(3, math.nan)).mean_wait_s is None

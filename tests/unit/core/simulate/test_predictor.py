"""What a simulation plans with in place of time limits."""

import msgspec
import numpy as np
import pytest
from simulated import a_job, a_site, part_of_ctc

from rankd.core.model.setting import SchedulingSettings
from rankd.core.simulate.predictor import RUNTIMES, Predictor
from rankd.core.simulate.simulator import Simulation

RUNS_S = [10, 30, 50, 70]


def predicted(runtime, n_ended, n_jobs=4):
    """What is expected of the last job, after some of the jobs have ended. All limits are 100 s."""
    runs = [RUNS_S[place % 4] for place in range(n_jobs)]
    work = Simulation(a_site(4), [a_job(0, run_s, 1, 100) for run_s in runs]).work
    predictor = Predictor(work, runtime)
    predictor.end(np.arange(n_ended))
    predictor.submit(np.array([n_jobs - 1]))
    return float(work.expected_s[-1])


@pytest.mark.parametrize(
    ("runtime", "n_ended", "expected_s"),
    [
        ("requested", 3, 100.0),
        ("exact", 0, 70.0),
        ("mean2", 0, 100.0),
        ("mean2", 1, 10.0),
        ("mean2", 3, 40.0),
        ("median20", 3, 100.0),
    ],
)
def test_what_is_expected_of_a_job(runtime, n_ended, expected_s):
    assert predicted(runtime, n_ended) == expected_s


def test_with_twenty_jobs_the_median_share_of_their_limits_counts():
    assert predicted("median20", 20, 24) == pytest.approx(40.0)
    assert predicted("median20", 19, 24) == 100.0


def lived(runtime, jobs, cores, **scheduling):
    simulation = Simulation(a_site(cores, scheduling=SchedulingSettings(**scheduling)), jobs, runtime)
    for _ in simulation.decisions():
        pass
    return simulation.starts_s.tolist()


def test_a_prediction_lets_a_job_pass_that_its_limit_would_not():
    past = [a_job(0, 5, 1, 100), a_job(5, 5, 1, 100)]
    jobs = [*past, a_job(20, 60, 3, 60, user="u2"), a_job(21, 10, 4, 100, user="u2"), a_job(22, 5, 1, 100)]
    assert lived("requested", jobs, 4)[3:] == [80.0, 90.0]
    assert lived("mean2", jobs, 4)[3:] == [80.0, 22.0]


def test_a_job_that_outlives_its_prediction_is_expected_to_use_its_limit():
    past = [a_job(0, 5, 1, 100), a_job(5, 5, 1, 100)]
    jobs = [*past, a_job(20, 90, 3, 100), a_job(21, 10, 4, 100, user="u2"), a_job(40, 60, 1, 60, user="u3")]
    assert lived("mean2", jobs, 4)[2:] == [20.0, 110.0, 40.0]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_job_starts_once_and_never_before_its_submission(runtime):
    jobs = part_of_ctc(most=60)[0]
    starts = lived(runtime, jobs, 338)
    assert all(start >= job.submit_s for start, job in zip(starts, jobs, strict=True))


def test_planning_with_true_run_times_is_as_exact_limits():
    jobs = part_of_ctc(most=120)[0]
    exact = [job._replace(limit_s=job.run_s) for job in jobs]
    assert lived("exact", jobs, 338) == lived("requested", exact, 338)
    assert msgspec.json.encode(lived("exact", jobs, 338))

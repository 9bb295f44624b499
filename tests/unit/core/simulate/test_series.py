import numpy as np
from simulated import a_job, a_site

from rankd.core.simulate import series
from rankd.core.simulate.series import in_use, waiting
from rankd.core.simulate.simulator import Simulation


def lived(*jobs):
    simulation = Simulation(a_site(4), jobs)
    for _ in simulation.decisions():
        pass
    return simulation.work, simulation.starts_s


def test_use_and_queue_are_steps_from_the_first_submission_on():
    work, starts_s = lived(a_job(100, 10, 4), a_job(105, 5, 2), a_job(105, 5, 1))
    used, queue = in_use(work, starts_s), waiting(work, starts_s)
    assert dict(zip(used.begins_s.tolist(), used.values.tolist(), strict=True)) == {0: 4, 10: 3, 15: 0}
    assert dict(zip(queue.begins_s.tolist(), queue.values.tolist(), strict=True)) == {0: 0, 5: 2, 10: 0}


def test_a_long_series_is_shortened_and_keeps_its_area(monkeypatch):
    work, starts_s = lived(*(a_job(place * 7 % 90, 3 + place % 5, 1 + place % 4) for place in range(60)))
    whole = in_use(work, starts_s)
    monkeypatch.setattr(series, "MOST_POINTS", 10)
    short = in_use(work, starts_s)
    assert len(short.values) == 10
    width_s = (whole.begins_s[-1] - whole.begins_s[0]) / 10
    assert np.isclose((whole.values[:-1] * np.diff(whole.begins_s)).sum(), short.values.sum() * width_s)


def test_a_job_that_never_starts_waits_to_the_end():
    work, starts_s = lived(a_job(0, 5, 9), a_job(1, 5, 1))
    assert waiting(work, starts_s).values[-1] == 1

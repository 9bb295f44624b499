"""A forecast from any state of a small trace says exactly what the simulator, and so the daemon, then does."""

from forecast_state import live_of
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import a_job, a_site, lived_through

from rankd.core.forecast.run import ForecastRun
from rankd.core.model.setting import SchedulingSettings
from rankd.core.simulate.simulator import Simulation

PROCESSORS = 6
JOBS = st.lists(
    st.builds(
        lambda submit_s, run_s, processors, more_s: a_job(submit_s, run_s, processors, run_s + more_s),
        st.integers(0, 20),
        st.integers(1, 12),
        st.integers(1, PROCESSORS),
        st.integers(0, 6),
    ),
    min_size=2,
    max_size=14,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submit_s))


@given(JOBS, st.sampled_from(["easy", "conservative", "none", "strict"]), st.sampled_from(["rank", "shortest"]))
@settings(max_examples=60, deadline=None)
def test_with_the_true_run_times_a_forecast_is_what_then_happens(jobs, backfill, order):
    site = a_site(PROCESSORS, scheduling=SchedulingSettings(backfill=backfill, backfill_order=order))
    simulation, last_s = Simulation(site, jobs), jobs[-1].submit_s
    for _ in simulation.decisions(until=last_s):
        pass
    shares = {place: job.run_s / job.limit_s for place, job in enumerate(jobs, start=1)}
    run = ForecastRun(live_of(simulation, site, last_s, shares=shares), "early")
    waiting = run.waiting()
    for _ in run.instants():
        pass
    truth = lived_through(site, jobs)
    assert {job: round(at, 6) for job, at in run.starts.items()} == {job: round(truth[job - 1], 6) for job in waiting}

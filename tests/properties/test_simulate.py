"""Simulations of random small traces: they decide as textbook backfilling does, however the pool is made."""

from easy_reference import conservative, easy
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import a_job, a_site, as_tuples, lived_through

from rankd.core.model.node import Node
from rankd.core.model.setting import PrioritySettings, SchedulingSettings
from rankd.core.simulate.simulator import Simulation

PROCESSORS = 6
JOBS = st.lists(
    st.builds(
        lambda submit_s, run_s, processors, more_s: a_job(submit_s, run_s, processors, run_s + more_s),
        st.integers(0, 40),
        st.integers(1, 12),
        st.integers(1, PROCESSORS),
        st.integers(0, 6),
    ),
    max_size=14,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submit_s))


@given(JOBS, st.sampled_from(["rank", "shortest", "strict"]))
@settings(max_examples=effort(20, 60), deadline=None)
def test_each_start_is_that_of_textbook_backfilling(jobs, rule):
    backfill, order = ("strict", "rank") if rule == "strict" else ("easy", rule)
    site = a_site(PROCESSORS, scheduling=SchedulingSettings(backfill=backfill, backfill_order=order))
    expected = easy(as_tuples(jobs), PROCESSORS, shortest=rule == "shortest", strict=rule == "strict")
    assert lived_through(site, jobs) == expected


@given(JOBS)
@settings(max_examples=effort(20, 60), deadline=None)
def test_each_start_is_that_of_textbook_conservative_backfilling(jobs):
    site = a_site(PROCESSORS, scheduling=SchedulingSettings(backfill="conservative"))
    assert lived_through(site, jobs) == conservative(as_tuples(jobs), PROCESSORS)


@given(
    JOBS,
    st.builds(
        lambda backfill, order, depth: SchedulingSettings(
            backfill=backfill, backfill_order=order if backfill == "easy" else "rank", reserve_depth=depth
        ),
        st.sampled_from(["easy", "easy", "conservative", "none", "strict"]),
        st.sampled_from(["rank", "shortest"]),
        st.integers(1, 3),
    ),
    st.sampled_from(["fcfs", "class"]),
    st.sampled_from(["requested", "exact"]),
    st.sets(st.integers(0, 13), max_size=3),
)
@settings(max_examples=effort(40, 200), deadline=None)
def test_cycles_that_are_left_out_would_start_nothing(jobs, scheduling, policy, runtime, exclusive):
    node = [Node(name="a", capacity={"vcore": 1000 * PROCESSORS})]
    site = a_site(node if exclusive else PROCESSORS, scheduling=scheduling, priority=PrioritySettings(policy=policy))
    jobs = [job._replace(whole_nodes=1) if place in exclusive else job for place, job in enumerate(jobs)]
    some, every = Simulation(site, jobs, runtime), Simulation(site, jobs, runtime)
    every._can_stand = False
    few, many = [[one for one in simulation.decisions() if one.placements] for simulation in (some, every)]
    assert [(one.now, one.placements) for one in few] == [(one.now, one.placements) for one in many]


@given(JOBS)
@settings(max_examples=effort(8, 20), deadline=None)
def test_results_do_not_depend_on_how_the_pool_is_made(jobs):
    single = [Node(name=f"n{place}", capacity={"vcore": 1000}) for place in range(PROCESSORS)]
    assert lived_through(a_site(single), jobs) == lived_through(a_site(PROCESSORS), jobs)

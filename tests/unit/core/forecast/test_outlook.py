import math

import msgspec
from forecast_state import ranges_of, state_of, with_later
from simulated import a_job, a_site

from rankd.core.forecast.live import LaterJob, Need
from rankd.core.forecast.outlook import AWAITED, BEYOND, HELD, NO_LIMIT
from rankd.core.model.reason_code import NO_NODE_FITS
from rankd.core.model.setting import SchedulingSettings

STRICT = SchedulingSettings(backfill="strict")


def three_in_a_row():
    """Each takes the whole machine: one runs since 0, two wait at 10."""
    return [a_job(0, 100, 4, 100), a_job(10, 50, 4, 60), a_job(10, 50, 4, 40)]


def test_the_late_end_assumes_that_all_limits_are_used_up():
    ranges = ranges_of(state_of(three_in_a_row()))
    assert ranges == {2: (100, 100, None), 3: (160, 160, None)}


def test_the_early_end_uses_the_shares_of_the_limits_of_running_and_earlier_jobs():
    ranges = ranges_of(state_of(three_in_a_row(), shares={1: 0.5, 2: 0.25}, site_share=1.0))
    assert ranges == {2: (50, 100, None), 3: (65, 160, None)}


def test_a_job_that_runs_longer_than_expected_may_end_at_any_moment():
    ranges = ranges_of(state_of(three_in_a_row(), shares={1: 0.01}))
    assert ranges[2] == (10, 100, None)


def test_a_small_job_is_backfilled_as_the_scheduler_would():
    jobs = [a_job(0, 100, 3, 100), a_job(10, 50, 4, 60), a_job(10, 50, 1, 50), a_job(10, 1000, 1, 1000)]
    live = state_of(jobs)
    assert set(ranges_of(live)) == {2, 4}, "job 3 was backfilled at once"
    assert ranges_of(live)[4][1] == 160, "job 4 would delay job 2, and comes after it"


def test_a_job_with_a_begin_time_starts_no_earlier():
    live = state_of(three_in_a_row()[:2])
    kind = int(live.partitions[0].problem.waiting[next(iter(live.partitions[0].problem.waiting))].kinds[0])
    queue = next(iter(live.partitions[0].problem.waiting))
    later = LaterJob(9, queue, kind, 500.0, ())
    assert ranges_of(with_later(live, later))[9] == (500, 500, None)


def test_a_job_that_waits_for_another_starts_after_its_end_and_a_chain_one_by_one():
    live = state_of(three_in_a_row()[:2])
    queue, waiting = next(iter(live.partitions[0].problem.waiting.items()))
    kind = int(waiting.kinds[0])
    chain = [
        LaterJob(9, queue, kind, 0.0, (Need(2, "ended"),)),
        LaterJob(10, queue, kind, 0.0, (Need(9, "ended"),)),
        LaterJob(11, queue, kind, 0.0, (Need(2, "begun"),)),
    ]
    ranges = ranges_of(with_later(live, *chain))
    assert ranges[2] == (100, 100, None)
    assert ranges[11] == (160, 160, None), "it was in the queue since 100, when job 2 began"
    assert ranges[9] == (220, 220, None)
    assert ranges[10] == (280, 280, None)


def test_a_job_that_waits_for_one_whose_start_cannot_be_told_has_no_range():
    live = state_of(three_in_a_row()[:2])
    queue, waiting = next(iter(live.partitions[0].problem.waiting.items()))
    later = LaterJob(9, queue, int(waiting.kinds[0]), 0.0, (Need(77, "ended"),))
    ranges = ranges_of(with_later(live, later), {77: (HELD, "held by alice")})
    assert ranges[77] == (None, None, HELD)
    assert ranges[9] == (None, None, AWAITED)


def test_jobs_behind_one_without_a_limit_have_no_late_end():
    live = state_of([a_job(0, 100, 4, math.inf), a_job(10, 50, 4, 60)])
    assert ranges_of(live)[2] == (None, None, NO_LIMIT)


def test_a_job_that_no_node_can_hold_says_so():
    jobs = [a_job(0, 100, 4, 100), a_job(10, 50, 4, 60)]
    live = state_of(jobs)
    partition = live.partitions[0]
    small = [msgspec.structs.replace(node, capacity={"vcore": 3000}) for node in partition.problem.nodes.nodes]
    problem = msgspec.structs.replace(partition.problem, nodes=type(partition.problem.nodes)(small))
    smaller = msgspec.structs.replace(live, partitions=[msgspec.structs.replace(partition, problem=problem)])
    assert ranges_of(smaller)[2] == (None, None, NO_NODE_FITS)


def test_what_the_bound_of_work_cuts_off_is_beyond_the_horizon():
    live = state_of(three_in_a_row())
    assert ranges_of(live, most_instants=2) == {2: (100, 100, None), 3: (None, None, BEYOND)}


def test_strict_backfilling_lets_nothing_pass():
    jobs = [a_job(0, 100, 3, 100), a_job(10, 50, 4, 60), a_job(10, 50, 1, 50)]
    ranges = ranges_of(state_of(jobs, site=a_site(4, scheduling=STRICT)))
    assert ranges == {2: (100, 100, None), 3: (160, 160, None)}

import math

import pytest
from easy_reference import conservative, easy, mean_bounded_slowdown
from effort import effort
from simulated import a_job, a_site, as_tuples, lived_through, part_of_ctc

from rankd.core.model.association import Association
from rankd.core.model.node import Node
from rankd.core.model.setting import FairshareSettings, PrioritySettings, SchedulingSettings
from rankd.core.simulate.simulator import Simulation

SHORTEST = SchedulingSettings(backfill_order="shortest")
STRICT = SchedulingSettings(backfill="strict")


@pytest.mark.parametrize(("limit", "by_rank", "by_limit"), [("exact", 32.401, 11.666), ("requested", 14.987, 7.555)])
def test_a_part_of_a_trace_gives_what_textbook_backfilling_gives(limit, by_rank, by_limit):
    jobs, left_out = part_of_ctc(limit=limit)
    assert len(jobs) + left_out.no_limit + left_out.no_run_time == 350
    own = as_tuples(jobs)
    for scheduling, shortest, expected in ((SchedulingSettings(), False, by_rank), (SHORTEST, True, by_limit)):
        starts = lived_through(a_site(338, scheduling=scheduling), jobs)
        assert starts == easy(own, 338, shortest=shortest)
        assert round(mean_bounded_slowdown(own, starts), 3) == expected


def test_strict_is_plain_first_come_first_served():
    jobs, _ = part_of_ctc(limit="exact")
    starts = lived_through(a_site(338, scheduling=STRICT), jobs)
    assert starts == easy(as_tuples(jobs), 338, strict=True)
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("scheduling", "expected", "wait_s", "slowdown"),
    [(STRICT, [1.0, 121.0, 201.0, 201.0], 124.5, 2.36), (SchedulingSettings(), [1.0, 121.0, 201.0, 10.0], 76.75, 1.76)],
)
def test_it_gives_what_batsim_gives(scheduling, expected, wait_s, slowdown):
    """The results of Batsim 3.1 that batsim-py's tutorial "Scheduling" prints: two hosts, first come first served."""
    jobs = [a_job(1, 120, 1, 240), a_job(5, 80, 2, 80), a_job(10, 120, 1, 240), a_job(10, 80, 1, 140)]
    starts = lived_through(a_site(2, scheduling=scheduling), jobs)
    waits = [start - job.submit_s for start, job in zip(starts, jobs, strict=True)]
    assert starts == expected
    assert sum(waits) / 4 == wait_s
    assert round(mean_bounded_slowdown(as_tuples(jobs), starts), 2) == slowdown


@pytest.mark.parametrize("limit", ["exact", "requested"])
def test_conservative_backfilling_is_that_of_the_textbook(limit):
    jobs, _ = part_of_ctc(limit=limit, most=effort(120, 350))
    starts = lived_through(a_site(338, scheduling=SchedulingSettings(backfill="conservative")), jobs)
    assert starts == conservative(as_tuples(jobs), 338)
    assert starts != lived_through(a_site(338), jobs)


BY_SIZE = [PrioritySettings(weights={"age": 1000.0, "size": 15000.0}, favor=favor) for favor in ("large", "small")]


@pytest.mark.parametrize("priority", [PrioritySettings(policy="fcfs"), *BY_SIZE])
def test_it_does_not_matter_how_a_pool_is_made_of_nodes(priority):
    """Not for the factor ``size`` either: with one node, each job would have all of them."""
    jobs, _ = part_of_ctc(limit="exact", most=120)
    one_each = [Node(name=f"n{place}", capacity={"vcore": 1000}) for place in range(338)]
    assert lived_through(a_site(one_each, priority=priority), jobs) == lived_through(
        a_site(338, priority=priority), jobs
    )


def test_what_ends_at_an_instant_makes_room_for_what_is_submitted_then():
    jobs = [a_job(0, 10, 4), a_job(10, 5, 4), a_job(10, 5, 1)]
    assert lived_through(a_site(4), jobs) == [0.0, 10.0, 15.0]


def test_a_job_starts_when_it_can_and_not_before_it_is_submitted():
    jobs = [a_job(5, 10, 3, 20), a_job(6, 4, 2), a_job(6, 4, 1, 8)]
    assert lived_through(a_site(4), jobs) == [5.0, 15.0, 6.0]


def test_a_job_that_no_node_has_room_for_never_starts():
    nodes = [Node(name="a", capacity={"vcore": 2000}), Node(name="b", capacity={"vcore": 1000})]
    starts = lived_through(a_site(nodes), [a_job(0, 5, 3), a_job(1, 5, 1)])
    assert math.isnan(starts[0])  # two nodes of two cores each
    assert starts[1] == 1.0


def test_who_has_used_less_goes_first_with_fair_share():
    priority = PrioritySettings(weights={"fairshare": 1000.0}, fairshare=FairshareSettings(half_life_s=1e6))
    accounts = [
        Association(account="g1"),
        Association(account="g1", user="greedy"),
        Association(account="g1", user="new"),
    ]
    jobs = [a_job(0, 10, 2, user="greedy"), a_job(1, 10, 2, user="greedy"), a_job(2, 10, 2, user="new")]
    assert lived_through(a_site(2, priority=priority, associations=accounts), jobs) == [0.0, 20.0, 10.0]


def test_the_settled_usage_is_that_of_all_charges():
    """Jobs that ended long ago have the effect that they would have if they were never settled."""
    priority = PrioritySettings(weights={"fairshare": 1e6}, fairshare=FairshareSettings(half_life_s=50.0))
    accounts = [Association(account="g1"), *(Association(account="g1", user=user) for user in "abc")]
    jobs = [a_job(at, 7, 1 + at % 2, user="abc"[at % 3]) for at in range(60)]
    starts = lived_through(a_site(2, priority=priority, associations=accounts), jobs)
    assert not any(math.isnan(start) for start in starts)
    used = {user: sum(j.run_s * j.processors for j in jobs if j.user == user) for user in "abc"}
    assert max(used.values()) < 1.6 * min(used.values())


def test_ranking_once_decides_as_ranking_at_each_instant_does():
    """With class values alone, nothing changes with time; ``multifactor`` without effect ranks at each instant."""
    jobs, _ = part_of_ctc(limit="exact", most=150)
    always = PrioritySettings(weights={"qos": 1.0})  # all have the same
    assert lived_through(a_site(338, priority=always), jobs) == lived_through(
        a_site(338, priority=PrioritySettings(policy="class")), jobs
    )


def test_a_queues_maximum_counts_what_runs():
    root = {"name": "root", "queues": [{"name": "q1", "resources": {"max": {"vcore": "2"}}}, {"name": "default"}]}
    jobs = [a_job(0, 10, 2, queue="q1"), a_job(0, 10, 1, queue="q1"), a_job(0, 10, 2, queue="q9")]
    assert lived_through(a_site(4, root=root), jobs) == [0.0, 10.0, 0.0]


def test_the_limits_of_users_count_what_runs():
    limits = [{"users": ["*"], "maxresources": {"vcore": "1"}}]
    root = {"name": "root", "queues": [{"name": "default", "limits": limits}]}
    jobs = [a_job(0, 10, 1, user="a"), a_job(0, 10, 1, user="a"), a_job(0, 10, 1, user="b")]
    assert lived_through(a_site(4, root=root), jobs) == [0.0, 10.0, 0.0]


def test_a_new_job_that_no_node_has_room_for_needs_no_cycle_while_others_wait_on():
    jobs = [a_job(0, 90, 3), a_job(1, 10, 4), a_job(2, 99, 1, 200), a_job(3, 10, 4), a_job(4, 10, 1)]
    cycles = [one.now for one in Simulation(a_site(4), jobs).decisions()]
    assert cycles == [0.0, 2.0, 4.0, 14.0, 90.0, 100.0, 199.0]  # none at 3: the job of 2 would still delay that of 1


def test_the_same_input_decides_the_same():
    jobs, _ = part_of_ctc(most=100)
    site = a_site(338, priority=PrioritySettings())
    assert list(Simulation(site, jobs).decisions()) == list(Simulation(site, jobs).decisions())

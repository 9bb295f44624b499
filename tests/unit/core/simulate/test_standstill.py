"""Where a start may change which job is next, or which node is reserved, no cycle is left out."""

import pytest
from simulated import a_job, a_site

from rankd.core.model.node import Node
from rankd.core.model.setting import PrioritySettings, SchedulingSettings
from rankd.core.simulate.simulator import Simulation

MAXIMUM = {"name": "default", "resources": {"max": {"vcore": "3"}}}
LIMITS = {"name": "default", "limits": [{"users": ["*"], "maxresources": {"vcore": "1"}}]}
TWO_NODES = [Node(name=name, capacity={"vcore": 4000}) for name in "ab"]
WITH_MEMORY = [Node(name="a", capacity={"vcore": 4000, "memory": 2**30})]
JOBS = [a_job(0, 5, 1, 9), a_job(0, 5, 2, 9, queue="q1")]


def can_stand(site, jobs=JOBS, runtime="requested"):
    return Simulation(site, jobs, runtime)._can_stand


def test_a_pool_with_one_queue_and_a_fixed_order_can():
    assert can_stand(a_site(4))
    assert can_stand(a_site(4, priority=PrioritySettings(policy="class")))
    assert can_stand(a_site(4), runtime="exact")
    assert can_stand(a_site(4), [])


@pytest.mark.parametrize(
    "site",
    [
        a_site(4, priority=PrioritySettings()),
        a_site(TWO_NODES),
        a_site(WITH_MEMORY),
        a_site(4, root={"name": "root", "queues": [{"name": "default"}, {"name": "q1"}]}),
        a_site(4, root={"name": "root", "queues": [MAXIMUM]}),
        a_site(4, root={"name": "root", "queues": [LIMITS]}),
        a_site(4, root={"name": "root", "queues": [{"name": "default", "maxapplications": 2}]}),
    ],
    ids=["multifactor", "two nodes", "memory", "two queues", "a maximum", "limits", "maxapplications"],
)
def test_other_sites_can_not(site):
    assert not can_stand(site)


def test_jobs_that_may_run_longer_than_the_scheduler_expects_can_not():
    assert not can_stand(a_site(4), runtime="mean2")
    assert not can_stand(a_site(4), [a_job(0, 99, 1, 9)])


def cycles(*jobs):
    """The instants at which there is a cycle, in a pool of 4."""
    return [one.now for one in Simulation(a_site(4), jobs).decisions()]


def test_an_end_at_the_limit_needs_no_cycle_if_nobody_has_room_only_now():
    running, head, small = a_job(0, 50, 2, 50), a_job(0, 9, 4, 9), a_job(0, 60, 1, 60)
    assert cycles(a_job(0, 5, 1, 5), running, head, small) == [0, 50, 59]
    assert cycles(a_job(0, 5, 1, 9), running, head, small) == [0, 5, 50, 59]
    assert cycles(a_job(0, 5, 1, 5), running, head, a_job(0, 60, 2, 60)) == [0, 5, 50, 59]


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative", "strict"])
def test_an_exclusive_job_starts_once_the_node_is_empty(backfill):
    """It asks for one core of four, which are free all the time."""
    site = a_site([Node(name="a", capacity={"vcore": 4000})], scheduling=SchedulingSettings(backfill=backfill))
    jobs = [a_job(0, 50, 1, 50), a_job(0, 9, 1, 9, whole_nodes=1)]
    simulation = Simulation(site, jobs)
    assert simulation._can_stand
    assert [one.now for one in simulation.decisions() if one.placements] == [0, 50]
    assert simulation.starts_s.tolist() == [0, 50]

"""The future of nodes. Two jobs on one node are the example by which Mu'alem and Feitelson explain backfilling:

a job may start before a reservation if it ends before it, or uses what the reservation leaves.
"""

import math
from random import Random

from builder import NOW, node, shape

from rankd.core.model.queue import NodeSort
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.problem import Hold
from rankd.core.placement.timeline import Timeline
from rankd_plugins.node_sort.fair import Fair


def busy(ends_at=NOW + 100):
    """One node of 4 cores, of which a job holds 3 until ``ends_at``."""
    hold = Hold(node="n1", resources={"vcore": 3000}, ends_at=ends_at)
    nodes = NodeTable([node("n1", used={"vcore": 3000})], Fair(), NodeSort().resourceweights, [hold])
    return nodes, Timeline(nodes, NOW)


def test_a_demand_fits_from_the_instant_at_which_enough_is_given_back():
    nodes, timeline = busy()
    windows = timeline.windows(nodes.demand(shape(vcore=4000)), 50.0, 1)
    assert windows.instants(1).tolist() == [NOW + 100]
    assert timeline.windows(nodes.demand(shape(vcore=4000)), 50.0, 2) is None


def test_what_never_ends_is_never_given_back():
    nodes, timeline = busy(math.inf)
    assert timeline.windows(nodes.demand(shape(vcore=4000)), 50.0, 1) is None
    assert timeline.ever_free().tolist()[0] == 1000


def test_a_job_that_ends_before_the_reservation_may_use_the_node_and_a_longer_one_may_not():
    nodes, timeline = busy()
    large, small = nodes.demand(shape(vcore=4000)), nodes.demand(shape(vcore=1000))
    timeline.reserve(7, [0], large, NOW + 100, 50.0)
    assert timeline.kept(100.0) is None
    assert not timeline.kept(101.0).allows([0], small).any()
    assert timeline.delayed(0, small, 101.0) == (7, NOW + 100)
    assert timeline.delayed(0, small, 100.0) is None


def test_a_longer_job_may_use_what_the_reservation_leaves():
    nodes, timeline = busy()
    small = nodes.demand(shape(vcore=1000))
    timeline.reserve(7, [0], nodes.demand(shape(vcore=3000)), NOW + 100, 50.0)
    assert timeline.kept(1000.0).allows([0], small).all()
    shares = nodes.shares([0], small)
    nodes.occupy(0, shares[0])
    timeline.start([0], shares, 1000.0)
    assert not timeline.kept(1000.0).allows([0], small).any()


def test_the_room_beside_a_first_reservation_is_the_same_whether_or_not_it_is_among_the_steps():
    random = Random(7)
    for _ in range(200):
        names = [f"n{number}" for number in range(3)]
        holds = [
            Hold(node=random.choice(names), resources={"vcore": 1000}, ends_at=NOW + random.randint(0, 5))
            for _ in range(random.randint(1, 8))
        ]
        used = {name: {"vcore": 1000 * sum(hold.node == name for hold in holds)} for name in names}
        of_random = [node(name, used=used[name], vcore=8000) for name in names]
        nodes = NodeTable(of_random, Fair(), NodeSort().resourceweights, holds)
        quick, slow = Timeline(nodes, NOW), Timeline(nodes, NOW)
        demand, rows = nodes.demand(shape(vcore=random.randint(1, 8) * 1000)), random.sample(range(3), 2)
        at = NOW + random.randint(0, 6)
        for timeline in (quick, slow):
            assert timeline.windows(demand, 1.0, 1) is not None
            timeline.reserve(7, rows, demand, at, 3.0)
        slow.windows(demand, 1.0, 1)  # takes the reservation into the steps
        assert quick.kept_until(at).free.tolist() == slow.kept_until(at).free.tolist()


def test_without_reservations_everything_is_free_to_use():
    _, timeline = busy()
    assert timeline.kept(math.inf) is None
    assert timeline.version == 0

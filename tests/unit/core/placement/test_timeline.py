"""The future of nodes. Two jobs on one node are the example by which Mu'alem and Feitelson explain backfilling:

a job may start before a reservation if it ends before it, or uses what the reservation leaves.
"""

import math

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


def test_without_reservations_everything_is_free_to_use():
    _, timeline = busy()
    assert timeline.kept(math.inf) is None
    assert timeline.version == 0

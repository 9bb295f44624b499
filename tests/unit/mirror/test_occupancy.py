import math

import pytest

from rankd.core.model.node import Node
from rankd.core.placement.node_set import SLOTS, NodeSet
from rankd.core.ranking.columns import NO_GROUP
from rankd.mirror.occupancy import Occupancy
from rankd.store.feed.occupancy import OpenAllocation

NODES = {"default": NodeSet([Node(name=name, capacity={"vcore": 8000}) for name in ("n1", "n2")])}


def allocation(id_, *nodes, queue=2, application=NO_GROUP, exclusive=False, limit=None, partition="default"):
    return OpenAllocation(
        id_, list(nodes), {"vcore": 1000}, exclusive, queue, application, limit, "alice", ("g",), partition
    )


@pytest.fixture
def occupancy():
    return Occupancy(600.0)


def test_details_are_asked_for_once(occupancy):
    assert occupancy.follow([(1, 10.0), (2, 20.0)], NODES) == [1, 2]
    occupancy.add([allocation(1, "n1"), allocation(2, "n1", "n2")])
    assert occupancy.follow([(1, 10.0), (2, 20.0)], NODES) == []
    assert occupancy.follow([(1, 10.0), (2, 20.0), (3, 30.0)], NODES) == [3]


def test_what_runs_counts_by_node_by_queue_and_by_application(occupancy):
    occupancy.follow([(1, 10.0), (2, 20.0)], NODES)
    occupancy.add([allocation(1, "n2", application=4), allocation(2, "n1", "n2", limit=5.0)])
    assert occupancy.by_queue == {2: {"vcore": 3000}}
    assert occupancy.by_application == {4: {"vcore": 1000}}
    held = occupancy.held("default")
    assert held.rows.tolist() == [1, 0, 1]
    assert held.vectors.tolist() == [[1000, 1]] * 3
    assert held.ends_at.tolist() == [610.0, 25.0, 25.0]
    assert [(tenant.user, tenant.groups, tenant.amount) for tenant in occupancy.tenants()] == [
        ("alice", ("g",), {"vcore": 1000}), ("alice", ("g",), {"vcore": 2000}),
    ]  # fmt: skip


def test_what_has_ended_is_given_back(occupancy):
    occupancy.follow([(1, 10.0), (2, 20.0)], NODES)
    occupancy.add([allocation(1, "n1"), allocation(2, "n2")])
    assert occupancy.follow([(2, 20.0)], NODES) == []
    assert occupancy.by_queue == {2: {"vcore": 1000}}
    assert occupancy.held("default").rows.tolist() == [1]


def test_what_is_held_is_the_same_object_while_the_same_runs(occupancy):
    occupancy.follow([(1, 10.0)], NODES)
    occupancy.add([allocation(1, "n1")])
    held = occupancy.held("default")
    occupancy.follow([(1, 10.0)], NODES)
    assert occupancy.held("default") is held
    occupancy.follow([(1, 11.0)], NODES)  # it has started: its time runs from then on
    assert occupancy.held("default").ends_at.tolist() == [611.0]


def test_an_exclusive_job_has_its_nodes_whole(occupancy):
    occupancy.follow([(1, 10.0)], NODES)
    occupancy.add([allocation(1, "n1", exclusive=True)])
    assert occupancy.held("default").vectors.tolist() == [[8000, SLOTS]]
    assert occupancy.by_queue == {2: {"vcore": 8000}}


def test_other_nodes_ask_for_everything_again(occupancy):
    occupancy.follow([(1, 10.0)], NODES)
    occupancy.add([allocation(1, "n1", "n2")])
    smaller = {"default": NodeSet([Node(name="n1", capacity={"vcore": 8000})])}
    assert occupancy.follow([(1, 10.0)], smaller) == [1]
    occupancy.add([allocation(1, "n1", "n2")])
    assert occupancy.held("default").rows.tolist() == [0]
    assert occupancy.by_queue == {2: {"vcore": 1000}}


def test_a_job_of_a_partition_that_is_gone_takes_nothing_of_the_others(occupancy):
    occupancy.follow([(1, 10.0)], NODES)
    occupancy.add([allocation(1, "n1", partition="gone")])
    assert occupancy.held("default").rows.tolist() == []
    assert occupancy.by_queue == {2: {}}


def test_without_a_default_a_job_without_limit_never_ends():
    occupancy = Occupancy(None)
    occupancy.follow([(1, 10.0)], NODES)
    occupancy.add([allocation(1, "n1")])
    assert occupancy.held("default").ends_at.tolist() == [math.inf]


def test_open_allocations_are_in_the_order_of_what_they_hold(occupancy):
    occupancy.follow([(1, 10.0), (2, 20.0)], NODES)
    occupancy.add([allocation(1, "n2"), allocation(2, "n1", "n2", limit=5.0)])
    opened = occupancy.opened("default")
    assert [(one.id, one.begun_at, one.limit_s, one.rows) for one in opened] == [(1, 10.0, 600.0, 1), (2, 20.0, 5.0, 2)]
    assert sum(one.rows for one in opened) == len(occupancy.held("default").rows)
    assert occupancy.opened("other") == []


def test_what_has_another_time_limit_is_read_again(occupancy):
    listed = [(1, 10.0), (2, 20.0)]
    occupancy.follow(listed, NODES)
    occupancy.add([allocation(1, "n1", limit=5.0), allocation(2, "n2", limit=5.0)])
    assert sorted(occupancy.held("default").ends_at.tolist()) == [15.0, 25.0]
    occupancy.forget([1, 99])
    assert occupancy.by_queue == {2: {"vcore": 1000}}
    assert occupancy.follow(list(listed), NODES) == [1]
    occupancy.add([allocation(1, "n1", limit=50.0)])
    assert sorted(occupancy.held("default").ends_at.tolist()) == [25.0, 60.0]
    assert occupancy.by_queue == {2: {"vcore": 2000}}

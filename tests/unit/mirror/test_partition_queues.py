"""The queues of a partition between two cycles."""

import numpy as np
import pytest

from rankd.core.model.queue import Limit, Partition, Queue, QueueProperties
from rankd.core.placement.problem import WaitingJobs
from rankd.core.ranking.queue_view import QueueView
from rankd.mirror.partition_queues import PartitionQueues

PARTITION = Partition(root=Queue(name="root", path="root", parent=True))
TOTAL = {"vcore": 8000}


class ByUsage:
    name = "fair"
    goes_by_usage = True
    holds_back = False


class ByTime(ByUsage):
    goes_by_usage = False


def view(id_, parent, **fields):
    return QueueView(id=id_, path=f"q{id_}", parent=parent, properties=QueueProperties(), **fields)


def queues(**of_leaf):
    """Root 1 with leaf 2 and parent 3, which has leaf 4."""
    views = [view(1, None), view(2, 1, **of_leaf), view(3, 1), view(4, 3)]
    return PartitionQueues(PARTITION, TOTAL, views)


def waiting(*jobs):
    ids = np.array(jobs, dtype=np.int64)
    return WaitingJobs(jobs=ids, priorities=ids, kinds=np.zeros(len(ids), dtype=np.int64))


def test_what_leaves_use_counts_for_every_queue_above():
    amounts = {2: {"vcore": 1000}, 4: {"vcore": 500, "gpu": 2}, 9: {"vcore": 7}}
    assert queues().used(amounts) == {
        1: {"vcore": 1500, "gpu": 2}, 2: {"vcore": 1000}, 3: {"vcore": 500, "gpu": 2}, 4: {"vcore": 500, "gpu": 2},
    }  # fmt: skip
    assert amounts == {2: {"vcore": 1000}, 4: {"vcore": 500, "gpu": 2}, 9: {"vcore": 7}}, "the input stays as it was"


def test_queues_that_use_nothing_are_left_out():
    assert queues().used({}) == {}
    assert queues().used({2: {"vcore": 1}}).keys() == {1, 2}


def test_only_jobs_of_this_partition_wait_here():
    here, there = waiting(5), waiting(6)
    assert queues().own({2: here, 9: there}) == {2: here}
    all_here = {2: here, 4: there}
    assert queues().own(all_here) is all_here, "the usual case copies nothing"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, set()), ({"application_sort": ByUsage()}, {2}), ({"application_sort": ByTime()}, set())],
)
def test_leaves_that_sort_by_usage_are_known(fields, expected):
    assert queues(**fields).by_usage == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, False), ({"maxapplications": 1}, True), ({"limits": (Limit(limit="all", users=("*",)),)}, True)],
)
def test_running_jobs_are_told_apart_only_for_a_quota_that_counts_them(fields, expected):
    assert queues(**fields).needs_tenants is expected


def test_queues_are_made_again_when_the_partition_or_its_nodes_change():
    made = queues()
    assert made.is_of(PARTITION, {"vcore": 8000})
    assert not made.is_of(PARTITION, {"vcore": 9000})
    assert not made.is_of(Partition(root=PARTITION.root), TOTAL), "another object may differ anywhere"

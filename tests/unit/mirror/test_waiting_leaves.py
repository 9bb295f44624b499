import numpy as np
import pytest

from rankd.core.model.int32 import INT32_MIN
from rankd.mirror.leaf_orders import LeafOrders
from rankd.mirror.pending_kinds import Rules
from rankd.mirror.pending_table import PendingTable
from rankd.mirror.unranked import NO_UNRANKED, unranked_jobs
from rankd.mirror.waiting_leaves import WaitingLeaves
from rankd.store.feed.order import DeltaChanges, NewestGeneration, RankedLeaf
from rankd.store.feed.pending_kind import PendingBatch
from rankd.store.feed.shape import JobShape

NO_DELTA = DeltaChanges([], {})


def leaf(*ids, first=10):
    places = np.arange(1, len(ids) + 1)
    return RankedLeaf(np.array(ids, dtype=np.int64), first - places, places.astype(np.int32))


def shape(_job):
    return JobShape("default", 1, 1, 1000, {"vcore": 1000}, None, exclusive=False)


class Memory:
    """A table with jobs 1 and 2 in leaf 2 and job 3 in leaf 3, all ranked by generation 5, which knows event 10."""

    def __init__(self):
        self.table = PendingTable(Rules(None, frozenset(), frozenset()))
        self.order = LeafOrders()
        self.leaves = WaitingLeaves(self.order, self.table)
        self.put((1, 2), (2, 2), (3, 3))
        self.rank(5, 10, {2: leaf(1, 2), 3: leaf(3)})

    def put(self, *pairs, revision=1, eligible=1, application=-1):
        rows = [(id_, revision, queue, 1, application, 7, 0.0, None, eligible, None, None) for id_, queue in pairs]
        self.table.put(PendingBatch.of_rows(rows), shape)

    def rank(self, number, revision, leaves):
        self.order.begin(number, leaves)
        self.order.follow(NewestGeneration(number, number, revision, 1.0), NO_DELTA)

    def look(self, *, is_stale=False, by_usage=frozenset()):
        return self.leaves.look(by_usage, is_stale=is_stale, unranked=lambda: self.leaves.not_ranked([], []))

    def jobs(self, **how):
        return {queue: own.jobs.tolist() for queue, own in self.look(**how).items()}


@pytest.fixture
def memory():
    return Memory()


def test_jobs_wait_in_the_order_of_the_ranking(memory):
    assert memory.jobs() == {2: [1, 2], 3: [3]}
    memory.rank(6, 10, {2: leaf(2, 1), 3: leaf(3)})
    assert memory.jobs() == {2: [2, 1], 3: [3]}


def test_jobs_that_started_or_changed_after_the_generation_do_not_wait(memory):
    memory.table.drop([1])
    memory.put((3, 3), revision=11)
    assert memory.jobs() == {2: [2]}
    memory.rank(6, 11, {2: leaf(2), 3: leaf(3)})
    assert memory.jobs() == {2: [2], 3: [3]}


def test_a_job_that_moved_to_another_leaf_waits_where_the_next_generation_has_it(memory):
    memory.put((2, 3), revision=11)
    assert memory.jobs() == {2: [1], 3: [3]}
    memory.rank(6, 11, {2: leaf(1), 3: leaf(2, 3)})
    assert memory.jobs() == {2: [1], 3: [2, 3]}


def test_a_leaf_keeps_its_objects_while_nothing_of_it_changes(memory):
    before = dict(memory.look())
    assert memory.look()[2] is before[2]
    memory.table.drop([3])
    assert memory.look()[2] is before[2]
    memory.put((1, 2), revision=1)
    assert memory.look()[2] is not before[2]


def test_other_priorities_alone_leave_the_other_columns_the_same_objects(memory):
    before = dict(memory.look())
    memory.rank(6, 10, {2: leaf(1, 2, first=100), 3: leaf(3)})
    after = memory.look()[2]
    assert after.priorities.tolist() == [99, 98]
    assert after.jobs is before[2].jobs
    assert after.kinds is before[2].kinds


def test_while_the_order_is_stale_unranked_jobs_come_last(memory):
    memory.put((8, 3), (7, 3), revision=12)
    memory.put((9, 3), revision=12, eligible=0)
    assert memory.jobs() == {2: [1, 2], 3: [3]}
    assert memory.jobs(is_stale=True) == {2: [1, 2], 3: [3, 7, 8]}
    assert memory.look(is_stale=True)[3].priorities.tolist() == [9, INT32_MIN + 1, INT32_MIN]
    assert memory.jobs() == {2: [1, 2], 3: [3]}


def test_leaves_by_usage_have_applications_and_submission_times(memory):
    assert memory.look()[2].applications is None
    assert memory.look(by_usage=frozenset({2}))[2].applications.tolist() == [-1, -1]
    assert memory.look(by_usage=frozenset({2}))[2].submitted_at.tolist() == [0.0, 0.0]


def test_a_successor_goes_over_to_another_order_and_leaves_the_first_as_it_is(memory):
    memory.jobs()
    order = LeafOrders.of_staged(6, 10)
    other = memory.leaves.successor(order)
    order.add({2: leaf(2, 1)})
    waiting = other.look(frozenset(), is_stale=False, unranked=lambda: NO_UNRANKED)
    assert {queue: own.jobs.tolist() for queue, own in waiting.items()} == {2: [2, 1], 3: [3]}
    assert memory.jobs() == {2: [1, 2], 3: [3]}


def test_in_filtering_leaves_only_applications_that_were_admitted_go_on(memory):
    memory.put((7, 3), revision=12, application=4)
    memory.put((8, 3), revision=12, application=5)
    memory.put((9, 3), revision=12)
    columns = memory.table.columns
    ranked = memory.table.lookup(np.array([1, 2, 3]))
    found = unranked_jobs(columns, ranked, filtering=[3], running=[5])
    assert columns.ids[found.rows].tolist() == [8, 9]

from itertools import pairwise

import numpy as np
import pytest

from rankd.mirror import staged_order
from rankd.mirror.leaf_orders import LeafOrders
from rankd.mirror.pending_kinds import Rules
from rankd.mirror.pending_table import PendingTable
from rankd.mirror.staged_order import StagedOrder
from rankd.mirror.unranked import NO_UNRANKED
from rankd.mirror.waiting_leaves import WaitingLeaves
from rankd.store.feed.order import MAX_ID, DeltaChanges, NewestGeneration, RankedLeaf, StagedGeneration
from rankd.store.feed.pending_kind import PendingBatch
from rankd.store.feed.shape import JobShape

NEXT = StagedGeneration(number=9, ranked_at=50.0, revision=100)


def leaf(*ids):
    places = np.arange(1, len(ids) + 1)
    return RankedLeaf(np.array(ids, dtype=np.int64), 10 - places, places.astype(np.int32))


def jobs(*pairs):
    """Pending jobs as (id, queue)."""
    return PendingBatch.of_rows([(id_, 1, queue, 1, -1, 7, 0.0, None, 1, None, None) for id_, queue in pairs])


def shape(_job):
    return JobShape("default", 1, 1, 1000, {"vcore": 1000}, None, exclusive=False)


@pytest.fixture
def in_use():
    """Jobs 1 and 2 wait in leaf 2, job 3 in leaf 3."""
    table, order = PendingTable(Rules(None, frozenset(), frozenset())), LeafOrders()
    table.put(jobs((1, 2), (2, 2), (3, 3)), shape)
    order.begin(5, {2: leaf(1, 2), 3: leaf(3)})
    order.follow(NewestGeneration(5, 5, 1, 40.0), DeltaChanges([], {}))
    leaves = WaitingLeaves(order, table)
    look(leaves)
    return leaves


def look(leaves):
    waiting = leaves.look(frozenset(), is_stale=False, unranked=lambda: NO_UNRANKED)
    return {queue: own.jobs.tolist() for queue, own in waiting.items()}


def test_every_queue_is_in_exactly_one_range_whatever_the_sizes(in_use, monkeypatch):
    monkeypatch.setattr(staged_order, "LEAVES_PER_STEP", 1)
    staged = StagedOrder()
    staged.follow(NEXT)
    assert staged.begin(in_use)
    ranges = []
    while staged.has_more:
        ranges.append(staged.next_range())
    ranges.sort()
    assert len(ranges) > 1
    assert (ranges[0].first, ranges[-1].last) == (0, MAX_ID - 1)
    assert all(after.first == before.last + 1 for before, after in pairwise(ranges))


def test_leaves_come_step_by_step_and_lost_ones_at_the_end(in_use):
    staged = StagedOrder()
    staged.follow(NEXT)
    assert staged.has_more
    assert not staged.has_any
    assert staged.begin(in_use)
    assert not staged.begin(in_use)
    staged.next_range()
    staged.add({2: leaf(2, 1)})
    assert not staged.has_more
    assert look(staged.waiting) == {2: [2, 1]}  # leaf 3 is not in the staged generation
    assert look(in_use) == {2: [1, 2], 3: [3]}


def test_another_staged_generation_begins_again(in_use):
    staged = StagedOrder()
    staged.follow(NEXT)
    staged.begin(in_use)
    staged.next_range()
    staged.add({2: leaf(1)})
    staged.follow(NEXT)  # the same: nothing is forgotten
    assert staged.has_any
    staged.follow(NEXT._replace(number=10))
    assert (staged.has_any, staged.has_more, staged.number) == (False, True, 10)
    staged.follow(None)
    assert (staged.has_any, staged.has_more, staged.number) == (False, False, 0)


def test_a_pass_of_the_same_number_at_another_instant_is_not_the_staged_one():
    staged = StagedOrder()
    staged.follow(NEXT)
    assert staged.is_base_of(NewestGeneration(9, 9, 100, 50.0))
    assert staged.is_base_of(NewestGeneration(11, 9, 120, 50.0))
    assert not staged.is_base_of(NewestGeneration(9, 9, 100, 51.0))
    assert not staged.is_base_of(NewestGeneration(9, 8, 100, 50.0))

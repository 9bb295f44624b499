"""What queues show. The tree and its numbers are the example of YuniKorn's "Priority Scheduling" with a fence:

a job behind a fence shows its own queue's offset outside, whatever its priority.
"""

from builder import views

from rankd.core.ranking.queue_priority import QueuePriorities

TREE = views(
    ("root", {}),
    ("root.fenced", {"priority_policy": "fence", "priority_offset": 7}),
    ("root.fenced.a", {"priority_offset": 5}),
    ("root.open", {"priority_offset": -2}),
)
ROOT, FENCED, A, OPEN = range(4)


def test_offsets_add_up_and_a_fence_shows_its_own_offset_alone():
    assert QueuePriorities().update(TREE, {A: 100, OPEN: 3}) == {ROOT: 7, FENCED: 7, A: 105, OPEN: 1}


def test_a_queue_without_jobs_shows_nothing():
    assert QueuePriorities().update(TREE, {OPEN: 3}) == {ROOT: 1, FENCED: None, A: None, OPEN: 1}


def test_a_change_goes_up_only_as_far_as_it_is_seen():
    priorities = QueuePriorities()
    priorities.update(TREE, {A: 100, OPEN: 3})
    assert priorities.update(TREE, {A: 200, OPEN: 3})[A] == 205
    assert priorities.recomputed == 2  # the fence shows what it showed
    priorities.update(TREE, {A: 200, OPEN: 3})
    assert priorities.recomputed == 0


def test_another_tree_is_computed_as_a_whole():
    priorities = QueuePriorities()
    priorities.update(TREE, {OPEN: 3})
    other = views(("root", {}), ("root.open", {}))
    assert priorities.update(other, {1: 3}) == {0: 3, 1: 3}

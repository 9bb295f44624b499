"""Comparing jobs pair by pair gives the order that sorting everything gives."""

import numpy as np
from builder import columns, job_row, no_applications

from rankd.core.model.queue import QueueProperties
from rankd.core.ranking.job_comparison import JobKeys, QueueHierarchy, earlier, leaf_keys, search, sorted_places
from rankd.core.ranking.order import OrderQueue, PreOrder

ROOT, A, B = 0, 1, 2


def hierarchy(*, disabled=False):
    properties = QueueProperties(sort_priority=not disabled)
    queues = [
        OrderQueue(properties=properties, is_root=True, children=(A, B)),
        OrderQueue(properties=QueueProperties(), is_root=False),
        OrderQueue(properties=QueueProperties(priority_offset=10), is_root=False),
    ]
    return QueueHierarchy(PreOrder(queues, [ROOT]), len(queues))


def job_keys(*jobs):
    """Jobs (id, queue, priority): what B's jobs show is 10 more than their priority; the root shows 0."""
    rows = columns(*(job_row(id, queue=queue) for id, queue, _ in jobs))
    priorities = np.array([priority for *_, priority in jobs])
    lifted = priorities + np.where(rows.queues == B, 10, 0)
    keys = leaf_keys(rows, priorities, np.zeros(len(jobs), dtype=bool), no_applications(), np.empty(0, dtype=np.int64))
    return JobKeys(rows.queues - 1, np.stack([np.zeros_like(lifted), lifted], axis=1), keys)


JOBS = job_keys((1, A, 5), (2, A, 9), (3, B, 0), (4, B, -1), (5, A, 9))


def test_the_order_is_by_what_queues_show_then_inside_the_leaf():
    assert (sorted_places(JOBS, hierarchy()) + 1).tolist() == [3, 2, 5, 4, 1]


def test_where_priority_is_disabled_between_queues_their_own_order_decides():
    assert (sorted_places(JOBS, hierarchy(disabled=True)) + 1).tolist() == [2, 5, 1, 3, 4]


def test_every_pair_compares_as_it_is_sorted():
    for tree in (hierarchy(), hierarchy(disabled=True)):
        order = sorted_places(JOBS, tree).tolist()
        for one in range(5):
            for other in range(5):
                if one != other:
                    first = earlier(JOBS.take(np.array([one])), JOBS.take(np.array([other])), tree)
                    assert first.tolist() == [order.index(one) < order.index(other)]


def test_several_searches_at_once_find_what_counting_finds():
    rng = np.random.default_rng(1)
    sequence = np.sort(rng.integers(0, 50, 200))
    wanted = rng.integers(-5, 55, 40)
    zeros = np.zeros(40, dtype=np.int64)
    found = search(zeros, zeros + 200, lambda places, asking: sequence[places] < wanted[asking])
    assert found.tolist() == [int((sequence < one).sum()) for one in wanted]

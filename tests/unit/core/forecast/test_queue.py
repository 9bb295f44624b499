"""The queue of a forecast while jobs and tasks start."""

import numpy as np

from rankd.core.forecast.queue import ForecastQueue
from rankd.core.placement.problem import Placement, WaitingJobs


def test_an_array_that_other_tasks_divide_starts_entry_by_entry():
    """As :mod:`rankd.core.placement.task_turn` divides it: two tasks of array 17, its task 50, three more tasks."""
    jobs = np.array([17, 50, 17, 60])
    own = WaitingJobs(
        jobs=jobs, priorities=np.array([9, 9, 9, 1]), kinds=np.zeros(4, dtype=np.int64), tasks=np.array([2, 1, 3, 1])
    )
    queue = ForecastQueue({1: own})

    def waiting():
        return list(zip(queue.waiting[1].jobs.tolist(), queue.waiting[1].tasks.tolist(), strict=True))

    queue.remove([Placement(17, ("n",))] * 3)
    assert waiting() == [(50, 1), (17, 2), (60, 1)]
    assert 17 in queue
    queue.remove([Placement(50, ("n",)), Placement(17, ("n",)), Placement(17, ("n",))])
    assert waiting() == [(60, 1)]
    assert (17 in queue, 50 in queue, 60 in queue) == (False, False, True)
    queue.remove([Placement(60, ("n",))])
    assert not queue

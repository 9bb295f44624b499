import numpy as np
from simulated import a_job, a_site

from rankd.core.simulate.order import by_leaf
from rankd.core.simulate.population import populate
from rankd.core.simulate.simulator import Simulation

IDS = {("default", "root"): 0, ("default", "root.default"): 1, ("default", "root.q1"): 2}


def a_static_order():
    return Simulation(a_site(8), [a_job(at, 5, 1) for at in range(6)])._order


def test_a_new_job_is_inserted_at_its_place():
    order, kinds = a_static_order(), np.zeros(6, dtype=np.int64)
    order.add(np.array([4, 2]))
    order.add(np.array([3]))
    [own] = order.waiting(0.0, kinds).values()
    assert own.jobs.tolist() == [3, 4, 5]
    order.remove(np.array([3]))
    assert order.pending().tolist() == [2, 4]


def test_what_has_not_changed_is_the_same_object_again():
    order, kinds = a_static_order(), np.zeros(6, dtype=np.int64)
    order.add(np.array([4]))
    assert order.waiting(0.0, kinds) is order.waiting(9.0, kinds)
    assert order.waiting(0.0, kinds) is not order.waiting(0.0, kinds.copy())


def test_the_jobs_of_each_leaf_keep_their_order():
    root = {"name": "root", "queues": [{"name": "default"}, {"name": "q1"}]}
    jobs = [a_job(0, 5, 1, queue=queue) for queue in ("", "q1", "", "q1")]
    work = populate(a_site(8, root=root), jobs, IDS)
    found = by_leaf(work, np.array([3, 2, 1, 0]), np.array([9, 8, 7, 6]), np.zeros(4, dtype=np.int64))
    assert {queue: own.jobs.tolist() for queue, own in found.items()} == {1: [3, 1], 2: [4, 2]}
    assert found[2].priorities.tolist() == [9, 7]

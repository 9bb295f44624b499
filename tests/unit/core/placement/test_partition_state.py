"""The queues of a partition before a cycle: brought up to a problem, they are as if they were built for it."""

import copy
import random

import numpy as np
from builder import NOW, kind, shape, views

from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import PartitionProblem, WaitingJobs

QUEUES = views(("root", {}), ("root.a", {}), ("root.b", {}), ("root.b.x", {}), ("root.b.y", {}))
LEAVES = (1, 3, 4)
KINDS = KindTable([kind(shape(vcore=1000)), kind(shape(vcore=3000, nodes=2))])
TOTAL = {"vcore": 10_000}


def jobs(rng):
    n = rng.randint(0, 4)
    return WaitingJobs(
        jobs=np.array(rng.sample(range(100), n), dtype=np.int64),
        priorities=-np.sort(-np.array(rng.choices(range(5), k=n), dtype=np.int64)),
        kinds=np.array(rng.choices(range(2), k=n), dtype=np.int64),
    )


def problem(waiting, used):
    return PartitionProblem(now=NOW, queues=QUEUES, waiting=waiting, kinds=KINDS, used=used, nodes=())


def shown(state):
    lives = [(live.key, live.best, live.share, live.weight, live.used, live.pending) for live in state.tree.lives]
    trimmed = [(*own[:4], *({k: v for k, v in amounts.items() if v} for amounts in own[4:])) for own in lives]
    return trimmed, state.n_leaves.tolist(), state.n_jobs.tolist(), sorted(state.contents)


def test_a_state_that_was_kept_is_as_one_that_is_new():
    rng = random.Random(11)
    kept, waiting = PartitionState(), {}
    for _ in range(150):
        for leaf in rng.sample(LEAVES, rng.randint(0, 2)):
            waiting[leaf] = jobs(rng)
        if rng.random() < 0.2:
            waiting.pop(rng.choice(LEAVES), None)
        used = {queue: {"vcore": rng.randint(0, 5000)} for queue in range(5) if rng.random() < 0.5}
        kept.update(problem(dict(waiting), used), TOTAL)
        new = PartitionState()
        new.update(problem(dict(waiting), used), TOTAL)
        if rng.random() < 0.6:  # keys may be computed later than amounts
            assert shown(kept) == shown(new)
        for which in ([True, False], [False, True]):
            assert kept.has_any(np.array(which)) == new.has_any(np.array(which))
            assert kept.leaves_with(np.array(which)) == new.leaves_with(np.array(which))


def test_leaves_with_the_same_columns_have_not_changed():
    waiting = {1: jobs(random.Random(1)), 3: jobs(random.Random(2))}
    state = PartitionState()
    state.update(problem(waiting, {}), TOTAL)
    assert state.changed is None
    state.update(problem(dict(waiting), {}), TOTAL)
    assert state.changed == set()
    state.update(problem({**waiting, 3: jobs(random.Random(3))}, {0: {"vcore": 1}}), TOTAL)
    assert state.changed == {0, 3}


def test_a_successor_has_the_same_queues_and_no_jobs():
    state = PartitionState()
    state.update(problem({1: jobs(random.Random(1))}, {}), TOTAL)
    other = state.successor()
    assert other.index is state.index
    assert other.contents == {}


def test_new_objects_with_equal_content_cost_time_and_change_nothing():
    waiting = {1: jobs(random.Random(1)), 3: jobs(random.Random(2))}
    kept, again = PartitionState(), PartitionState()
    kept.update(problem(waiting, {}), TOTAL)
    again.update(problem(waiting, {}), TOTAL)
    again.update(problem({leaf: copy.deepcopy(own) for leaf, own in waiting.items()}, {}), TOTAL)
    assert again.changed == {leaf for leaf, own in waiting.items() if len(own.jobs)}
    assert shown(again) == shown(kept)

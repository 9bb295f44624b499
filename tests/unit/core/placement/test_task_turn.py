"""Tasks of one array come in ascending order, also those with records of their own."""

import numpy as np
import pytest

from rankd.core.model.index_set import parse
from rankd.core.placement import task_turn
from rankd.core.placement.problem import WaitingJobs
from rankd.core.placement.task_turn import TaskTurn, in_turn

RESTS = {17: parse("4-6,8-9")}
TASKS = {50: TaskTurn(17, 3), 51: TaskTurn(17, 7), 52: TaskTurn(17, 12), 60: TaskTurn(18, 1)}


def turned(*entries, tasks=TASKS, rests=RESTS, n_ranked=None, kinds=None):
    """Entries (job, priority, tasks) of a leaf; the jobs and numbers of tasks of the result."""
    jobs, priorities, numbers = (np.array(column, dtype=np.int64) for column in zip(*entries, strict=True))
    kinds = np.zeros(len(jobs), dtype=np.int64) if kinds is None else np.array(kinds)
    given = WaitingJobs(jobs=jobs, priorities=priorities, kinds=kinds, submitted_at=jobs * 1.0, tasks=numbers)
    found = in_turn(given, tasks, rests, n_ranked)
    assert found.submitted_at.tolist() == found.jobs.tolist(), "all columns move alike"
    assert found.jobs.dtype == found.priorities.dtype == np.int64
    return list(zip(found.jobs.tolist(), found.tasks.tolist(), strict=True)), found.priorities.tolist()


def test_a_task_comes_at_its_index_and_divides_the_rest():
    order, _ = turned((17, 9, 5), (20, 9, 1), (50, 9, 1), (51, 9, 1), (52, 9, 1), (70, 1, 1))
    assert order == [(50, 1), (17, 3), (51, 1), (17, 2), (52, 1), (20, 1), (70, 1)]


def test_a_task_of_another_priority_or_another_array_stays():
    given = [(51, 99, 1), (17, 9, 5), (60, 9, 1), (50, 8, 1)]
    assert turned(*given)[0] == [(job, number) for job, _, number in given]


def test_tasks_without_a_rest_are_in_order_too():
    assert turned((20, 9, 1), (51, 9, 1), (50, 9, 1))[0] == [(20, 1), (50, 1), (51, 1)]


def test_under_first_come_first_served_a_task_comes_with_its_array():
    first = 2**31
    order, priorities = turned((17, first - 17, 5), (20, first - 20, 1), (50, first - 50, 1), (51, first - 51, 1))
    assert order == [(50, 1), (17, 3), (51, 1), (17, 2), (20, 1)]
    assert priorities == [first - 17] * 4 + [first - 20]
    order, _ = turned((17, first - 17, 5), (20, first - 20, 1), (50, -3, 1))
    assert order == [(17, 5), (20, 1), (50, 1)], "an administrator has fixed its priority"


def test_what_is_not_ranked_yet_comes_with_its_array():
    order, priorities = turned((17, 9, 5), (20, 8, 1), (51, -7, 1), (50, -8, 1), n_ranked=2)
    assert (order, priorities) == ([(50, 1), (17, 3), (51, 1), (17, 2), (20, 1)], [9, 9, 9, 9, 8])
    order, priorities = turned((20, -1, 1), (17, -2, 5), (50, -3, 1), n_ranked=0)
    assert (order, priorities) == ([(20, 1), (50, 1), (17, 5)], [-1, -2, -2])
    other_kind = turned((17, 9, 5), (20, 8, 1), (50, -8, 1), n_ranked=2, kinds=[0, 0, 1])[0]
    assert other_kind == [(17, 5), (20, 1), (50, 1)], "it asks for something else by now"


def test_what_does_not_move_is_the_same_object():
    jobs = np.array([17, 20])
    given = WaitingJobs(jobs=jobs, priorities=jobs, kinds=jobs)
    assert in_turn(given, TASKS, RESTS) is given
    jobs = np.array([20, 50, 51])
    given = WaitingJobs(jobs=jobs, priorities=np.zeros(3, dtype=np.int64), kinds=jobs)
    assert in_turn(given, TASKS, RESTS) is given


def test_very_many_tasks_go_by_their_ids(monkeypatch):
    monkeypatch.setattr(task_turn, "MOST", 1)
    assert turned((17, 9, 5), (51, 9, 1), (50, 9, 1))[0] == [(17, 5), (51, 1), (50, 1)]


@pytest.mark.parametrize("seed", range(50))
def test_the_indices_ascend_and_each_is_there_once(seed):
    chance = np.random.default_rng(seed)
    indices = chance.permutation(12)
    own, rest = sorted(indices[:5].tolist()), sorted(indices[5:].tolist())
    ids = chance.permutation(np.arange(50, 55)).tolist()
    tasks = {job: TaskTurn(17, index) for job, index in zip(ids, own, strict=True)}
    order, _ = turned(
        (17, 9, 7), *((job, 9, 1) for job in sorted(ids)), tasks=tasks, rests={17: parse(",".join(map(str, rest)))}
    )
    found, left = [], iter(rest)
    for job, number in order:
        found += [tasks[job].task] if job in tasks else [next(left) for _ in range(number)]
    assert found == list(range(12))

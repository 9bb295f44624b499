"""A cycle treats an array like its tasks as single jobs, one behind the other."""

import random

import msgspec
import numpy as np
import pytest
from builder import NOW, node, problem, shape, views
from placement_problem import random_problem

from rankd.core.model.reason_code import ARRAY_LIMIT, RESOURCES
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.problem import Hold
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair

POLICIES = {"fair": Fair(), "binpacking": Binpacking()}
FACTOR = 100
"""The task ``i`` of the array ``j`` is the job ``j * FACTOR + i``."""


def as_arrays(given, tasks):
    """The problem with its jobs as arrays of so many tasks."""
    waiting = {
        queue: msgspec.structs.replace(
            own,
            jobs=own.jobs * FACTOR,
            tasks=np.array([tasks[job] for job in own.jobs.tolist()], dtype=np.int64),
        )
        for queue, own in given.waiting.items()
    }
    return msgspec.structs.replace(given, waiting=waiting)


def as_singles(given, tasks):
    """The problem with a single job for each task."""
    waiting = {}
    for queue, own in given.waiting.items():
        numbers = [tasks[job] for job in own.jobs.tolist()]
        places = np.repeat(np.arange(len(numbers)), numbers)
        offsets = np.concatenate([np.arange(number) for number in numbers])
        columns = {
            name: None if (column := getattr(own, name)) is None else column[places]
            for name in ("priorities", "kinds", "applications", "submitted_at")
        }
        waiting[queue] = msgspec.structs.replace(own, jobs=own.jobs[places] * FACTOR + offsets, **columns)
    return msgspec.structs.replace(given, waiting=waiting)


def outcome(given):
    return run_cycle(given, POLICIES[given.node_sort.type])


def decided(found):
    """What was placed and reserved, by the array of each job."""
    placed = [(one.job // FACTOR, one.nodes) for one in found.placements]
    reserved = [(one.job // FACTOR, one.nodes, one.starts_at) for one in found.reservations]
    return placed, reserved


@pytest.mark.parametrize("seed", range(400))
def test_an_array_is_placed_like_its_tasks_as_single_jobs(seed):
    chance = random.Random(seed)
    given = msgspec.structs.replace(random_problem(chance), reserve_depth=1, each=chance.random() < 0.7)
    jobs = [job for own in given.waiting.values() for job in own.jobs.tolist()]
    tasks = {job: chance.choice([1, 1, 2, 3, 7]) for job in jobs}
    assert decided(outcome(as_arrays(given, tasks))) == decided(outcome(as_singles(given, tasks)))


@pytest.mark.parametrize("seed", range(200))
def test_no_more_tasks_start_than_the_limit_allows_and_the_reason_says_so(seed):
    chance = random.Random(seed)
    given = msgspec.structs.replace(random_problem(chance), reserve_depth=1)
    jobs = [job for own in given.waiting.values() for job in own.jobs.tolist()]
    tasks = {job: chance.choice([1, 2, 5]) for job in jobs}
    rooms = {job * FACTOR: chance.randint(-1, 3) for job in jobs if chance.random() < 0.6}
    found = outcome(msgspec.structs.replace(as_arrays(given, tasks), array_rooms=rooms))
    for job in jobs:
        array = job * FACTOR
        n_started = sum(one.job == array for one in found.placements)
        assert n_started <= min(tasks[job], max(0, rooms.get(array, FACTOR)))
        reason = found.by_job.get(array)
        if reason is not None and reason.reason == ARRAY_LIMIT:
            assert n_started == max(0, rooms[array]) < tasks[job]
        if n_started == tasks[job]:
            assert reason is None


# --- examples -----------------------------------------------------------------------------------------------

ONE = views(("root", {}), ("root.a", {}))
CORE = shape(1000)


def with_tasks(given, *numbers):
    [(queue, own)] = given.waiting.items()
    tasks = np.array(numbers, dtype=np.int64)
    return msgspec.structs.replace(given, waiting={queue: msgspec.structs.replace(own, tasks=tasks)})


def started(given):
    return [one.job for one in run_cycle(given, Fair()).placements]


def test_as_many_tasks_start_as_fit():
    given = with_tasks(problem(ONE, {1: [(5, CORE, 0), (6, CORE, 0)]}, [node("n", 4000)]), 3, 1_000_000)
    assert started(given) == [5, 5, 5, 6]


def test_an_array_at_its_limit_lets_others_pass():
    given = with_tasks(problem(ONE, {1: [(5, CORE, 9), (6, CORE, 0)]}, [node("n", 4000)]), 10, 1)
    assert started(msgspec.structs.replace(given, array_rooms={5: 2})) == [5, 5, 6]


def test_tasks_with_records_of_their_own_count_for_the_limit():
    given = problem(ONE, {1: [(5, CORE, 9), (6, CORE, 5), (7, CORE, 0)]}, [node("n", 4000)])
    limited = msgspec.structs.replace(given, array_rooms={5: 1}, array_of={6: 5})
    assert started(with_tasks(limited, 10, 1, 1)) == [5, 7]


@pytest.mark.parametrize(("backfill", "n_reserved"), [("easy", 1), ("conservative", 3)])
def test_an_array_gets_one_reservation_or_conservatively_some(backfill, n_reserved):
    full = [node(name, 1000, used={"vcore": 1000}) for name in "abcdef"]
    given = problem(ONE, {1: [(5, CORE, 9), (6, CORE, 0)]}, full)
    limits = msgspec.structs.replace(given, backfill=backfill, reserve_depth=2, array_reserve=3, now=NOW)
    found = run_cycle(with_tasks(limits, 10, 1), Fair()).reservations
    assert [one.job for one in found].count(5) <= n_reserved


@pytest.mark.parametrize(("room", "n_reserved"), [(1, 1), (2, 2), (None, 3)])
def test_no_more_tasks_get_reservations_than_may_run(room, n_reserved):
    full = [node(name, 1000, used={"vcore": 1000}) for name in "abcdef"]
    given = problem(ONE, {1: [(5, CORE, 9), (6, CORE, 0)]}, full)
    held = [Hold(node=name, resources={"vcore": 1000}, ends_at=NOW + 60) for name in "abcdef"]
    rooms = {} if room is None else {5: room}
    limits = msgspec.structs.replace(
        given, backfill="conservative", array_reserve=3, now=NOW, array_rooms=rooms, holds=held
    )
    found = run_cycle(with_tasks(limits, 10, 1), Fair()).reservations
    assert [one.job for one in found].count(5) == n_reserved


def test_the_amounts_of_all_tasks_are_pending():
    given = with_tasks(problem(ONE, {1: [(5, CORE, 0)]}, []), 1_000_000)
    found = run_cycle(given, Fair())
    assert not found.placements
    assert found.looked_at <= 1
    assert RESOURCES not in {reason.reason for reason in found.own}

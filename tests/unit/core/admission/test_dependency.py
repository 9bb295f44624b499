"""Dependencies. The conditions are those of Slurm's ``sbatch --dependency`` (its manual)."""

import pytest

from rankd.core.admission.dependency import (
    BEGIN_TIME,
    DEPENDENCY,
    MOST_BY_INDEX,
    Blocked,
    Progress,
    blocked_by,
    check_by_index,
    check_form,
    check_known,
)
from rankd.core.errors import Refused
from rankd.core.model.index_set import parse
from rankd.core.model.job import Dependency, State

FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)


def reason(kind, progress, *, begin_at=None, now=0.0):
    waiting = Blocked(job=2, held=False, begin_at=begin_at, depends_on=(Dependency(job=1, type=kind),))
    return blocked_by(waiting, {} if progress is None else {1: progress}, now)


@pytest.mark.parametrize(
    ("kind", "met_by"),
    [
        ("afterok", {State.COMPLETED}),
        ("afternotok", {State.FAILED, State.CANCELLED}),
        ("afterany", {State.COMPLETED, State.FAILED, State.CANCELLED}),
        ("after", {State.COMPLETED, State.FAILED, State.CANCELLED}),
    ],
)
def test_each_condition_is_met_by_the_ends_that_slurms_manual_names(kind, met_by):
    met = {state for state in FINISHED if reason(kind, Progress(state, has_begun=False)) is None}
    assert met == met_by


def test_after_is_met_as_soon_as_the_other_job_has_begun():
    assert reason("after", Progress(State.RUNNING, has_begun=True)) is None
    assert reason("after", Progress(State.PENDING, has_begun=False)) == DEPENDENCY
    assert reason("afterany", Progress(State.RUNNING, has_begun=True)) == DEPENDENCY


def test_a_job_that_is_not_known_meets_nothing():
    assert reason("afterany", None) == DEPENDENCY


def test_a_begin_time_blocks_until_it_is_reached_and_dependencies_are_named_first():
    done = Progress(State.COMPLETED, has_begun=True)
    assert reason("afterok", done, begin_at=10.0, now=9.9) == BEGIN_TIME
    assert reason("afterok", done, begin_at=10.0, now=10.0) is None
    assert reason("afterok", None, begin_at=10.0, now=9.9) == DEPENDENCY


def test_the_refusal_names_the_first_five_unknown_jobs_and_counts_the_others():
    wanted = [Dependency(job=job, type="afterok") for job in range(1, 9)]
    check_known(wanted, range(1, 9))
    with pytest.raises(Refused, match=r"job 2, 3, 4, 5, 6 and 2 more") as refusal:
        check_known(wanted, {1})
    assert refusal.value.status == 404


def test_an_array_waits_by_index_for_a_few_arrays_only():
    wanted = [Dependency(job=job, type="aftercorr") for job in range(1, MOST_BY_INDEX + 1)]
    check_form([*wanted, *wanted, Dependency(job=99, type="afterok")])
    with pytest.raises(Refused, match=rf"names {MOST_BY_INDEX + 1} arrays, {MOST_BY_INDEX} are allowed") as refusal:
        check_form([*wanted, Dependency(job=99, type="aftercorr")])
    assert refusal.value.code == "bad_dependency"


def test_the_same_indices_may_be_written_in_other_ways():
    wanted = [Dependency(job=1, type="aftercorr")]
    one, two = parse("1-3,5,7"), (range(1, 3), range(3, 8, 2))
    assert one != two
    check_by_index(wanted, one, {1: two})
    check_by_index(wanted, one, {1: one})
    check_by_index(wanted, parse("5"), {1: two}, is_part=True)
    for own in (parse("1-3,5"), parse("1-3,5,7,8")):
        with pytest.raises(Refused, match="the same indices"):
            check_by_index(wanted, own, {1: two})

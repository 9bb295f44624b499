"""The record of a step: no repetition counts twice, and it ends as the worst of its tasks, in whatever order."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from rankd.core.session.step import (
    LONGEST_COMMAND,
    LOST,
    MOST_TASKS,
    NOT_STARTED,
    StepEnd,
    StepState,
    begun,
    ended,
    most_tasks,
    shown_command,
)


def end(task, at=5.0, **fields):
    return StepEnd(allocation=1, number=0, task=task, at=at, **fields)


def after(state, *ends):
    for one in ends:
        state = ended(state, one)
    return state


@pytest.mark.parametrize(
    ("worst", "others"),
    [
        ({"exit_status": 3}, [{"exit_status": 0}, {"exit_status": 2}]),
        ({"signal": 9}, [{"exit_status": 127}, {"signal": 2}]),
        ({"exit_status": 127, "cause": NOT_STARTED}, [{"exit_status": 126}, {"cause": NOT_STARTED}]),
        ({"cause": LOST}, [{"exit_status": 124}, {"exit_status": 0}]),
    ],
)
def test_a_step_ends_as_the_worst_of_its_tasks_in_any_order_and_however_often_they_are_reported(worst, others):
    ends = [end(task, **fields) for task, fields in enumerate([worst, *others])]
    for order in permutations(ends):
        state = after(StepState(begun=0b111), *order, *order)
        assert (state.ended, state.ended_at) == (0b111, 5.0)
        assert (state.exit_status, state.signal, state.cause) == tuple(
            worst.get(name) for name in ("exit_status", "signal", "cause")
        )


def test_a_step_is_open_until_its_last_task_has_ended():
    state = after(StepState(begun=0b11), end(0, exit_status=0))
    assert state.ended_at is None
    assert after(state, end(1, at=9.0, exit_status=0)).ended_at == 9.0


@pytest.mark.parametrize("task", [1, 2, 63, 2**62])
def test_the_end_of_a_task_that_was_not_begun_changes_nothing(task):
    state = StepState(begun=1)
    assert ended(state, end(task, exit_status=1)) == state


def test_a_task_that_comes_later_opens_its_step_again():
    state = begun(after(StepState(begun=1), end(0, exit_status=4)), 1)
    assert (state.begun, state.ended_at, state.exit_status) == (0b11, None, 4)
    assert begun(state, 1) == state, "the same request again"


def test_a_task_that_could_not_begin_may_begin_later():
    state = begun(after(StepState(begun=1), end(0, cause=NOT_STARTED)), 0)
    assert (state.ended, state.unstarted, state.ended_at, state.cause) == (0, 0, None, None)
    assert after(state, end(0, exit_status=0)).cause is None


@pytest.mark.parametrize("fields", [{"exit_status": 7}, {"signal": 9}, {"exit_status": 127, "cause": NOT_STARTED}])
def test_a_task_that_ran_is_not_begun_again_by_a_late_repetition_of_its_request(fields):
    state = after(StepState(begun=0b11), end(0, **fields), end(1, cause=NOT_STARTED))
    assert begun(state, 0) == state
    one = after(StepState(begun=1), end(0, **fields))
    assert begun(one, 0) == one


@pytest.mark.parametrize("fields", [{"exit_status": 7}, {"exit_status": 0}, {"signal": 9}, {"cause": LOST}])
def test_what_a_task_that_ran_ended_with_replaces_that_it_had_not_started(fields):
    """The agent says so of an expired session, when the client has got a new grant already."""
    late = begun(after(StepState(begun=1), end(0, cause=NOT_STARTED)), 0)
    first, last = end(0, at=6.0, cause=NOT_STARTED), end(0, at=9.0, **fields)
    state = after(late, first, last, first, last)
    assert (state.ended, state.unstarted, state.ended_at) == (1, 0, 9.0)
    assert (state.exit_status, state.signal, state.cause) == tuple(
        fields.get(name) for name in ("exit_status", "signal", "cause")
    )


def test_of_several_tasks_only_the_end_of_the_one_that_had_not_started_is_replaced():
    ends = end(0, cause=NOT_STARTED), end(1, exit_status=3)
    state = after(StepState(begun=0b11), *ends, *ends)
    assert (state.ended, state.unstarted, state.exit_status) == (0b11, 0b01, 3), "a repeated report of another task"
    assert after(state, end(0, exit_status=0)).exit_status == 3, "what the other one ended with is not forgotten"
    assert after(state, end(0, exit_status=7)).exit_status == 7


def test_an_end_without_status_is_recorded_also_if_it_is_the_first():
    assert after(StepState(begun=1), end(0, cause=LOST)) == replace(
        StepState(begun=1), ended=1, ended_at=5.0, cause=LOST
    )


@pytest.mark.parametrize("words", [["a" * 10_000], ["a", "b" * 10_000], ["a"] * 10_000, ["'"] * 10_000])
def test_a_long_command_is_cut(words):
    shown = shown_command(words)
    assert len(shown) == LONGEST_COMMAND
    assert shown.endswith("…")


@pytest.mark.parametrize("words", [["a" * LONGEST_COMMAND], ["a" * 499, "b" * 500]])
def test_a_command_that_just_fits_is_whole(words):
    assert shown_command(words) == " ".join(words)


def test_a_step_may_have_a_task_on_each_node():
    assert (most_tasks(1), most_tasks(1_000)) == (MOST_TASKS, 1_000)

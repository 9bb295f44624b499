"""What events of tasks add to the numbers of their arrays, and how an array ends."""

import pytest

from rankd.core.change.array_end import Marks, array_end, counts_of, end_of_array, marks_of
from rankd.core.change.job_change import Change
from rankd.core.model.job import Event, State, next_state

PENDING, ALLOCATED, RUNNING = State.PENDING, State.ALLOCATED, State.RUNNING


def change(job, state, event, **columns):
    return Change(job=job, state=state, event=event, actor="x", columns=columns)


@pytest.mark.parametrize(
    ("state", "event", "numbers"),
    [
        (PENDING, Event.ALLOCATE, {"n_active": 1}),
        (ALLOCATED, Event.START, {}),
        (RUNNING, Event.COMPLETE, {"n_active": -1, "n_open": -1, "n_completed": 1}),
        (RUNNING, Event.FAIL, {"n_active": -1, "n_open": -1, "n_failed": 1}),
        (RUNNING, Event.TIME_OUT, {"n_active": -1, "n_open": -1, "n_failed": 1}),
        (RUNNING, Event.EXCEED_MEMORY, {"n_active": -1, "n_open": -1, "n_failed": 1}),
        (ALLOCATED, Event.LOSE_NODE, {"n_active": -1, "n_open": -1, "n_failed": 1}),
        (RUNNING, Event.CANCEL, {"n_active": -1, "n_open": -1, "n_cancelled": 1}),
        (PENDING, Event.CANCEL, {"n_open": -1, "n_cancelled": 1}),
        (RUNNING, Event.REQUEUE, {"n_active": -1}),
        (ALLOCATED, Event.TAKE_BACK, {"n_active": -1}),
        (PENDING, Event.HOLD, {}),
        (PENDING, Event.UPDATE, {}),
    ],
)
def test_each_event_of_a_task_counts_once(state, event, numbers):
    found = counts_of([change(20, state, event)], {20: 17})
    assert {name: number for name, number in found.get(17, {}).items() if number} == numbers


def test_jobs_that_are_no_tasks_count_nowhere():
    assert counts_of([change(3, RUNNING, Event.COMPLETE)], {20: 17}) == {}


def test_events_of_several_tasks_of_an_array_are_summed():
    changes = [change(job, RUNNING, Event.COMPLETE) for job in (20, 21, 22)]
    assert counts_of(changes, {20: 17, 21: 17, 22: 18})[17]["n_completed"] == 2


@pytest.mark.parametrize(
    ("completed", "failed", "cancelled", "event"),
    [
        (5, 0, 0, Event.COMPLETE),
        (4, 1, 0, Event.FAIL),
        (0, 5, 0, Event.FAIL),
        (4, 0, 1, Event.FAIL),
        (0, 4, 1, Event.FAIL),
        (0, 0, 5, Event.CANCEL),
    ],
)
def test_an_array_is_completed_or_cancelled_if_all_its_tasks_are(completed, failed, cancelled, event):
    assert array_end(completed, failed, cancelled) is event


@pytest.mark.parametrize("event", [Event.COMPLETE, Event.FAIL, Event.CANCEL])
def test_the_end_of_an_array_is_an_event_that_its_state_allows(event):
    end = end_of_array(17, event, 5.0)
    assert next_state(17, end.state, end.event)
    assert end.columns == {"ended_at": 5.0}


def test_the_first_start_the_last_end_and_the_highest_exit_status_are_those_of_the_whole():
    changes = [
        change(20, ALLOCATED, Event.START, started_at=7.0),
        change(21, ALLOCATED, Event.START, started_at=5.0),
        change(20, RUNNING, Event.FAIL, ended_at=12.0, exit_status=None, signal=9),
        change(21, RUNNING, Event.FAIL, ended_at=11.0, exit_status=2, signal=None),
        change(22, RUNNING, Event.REQUEUE, started_at=None, requeues=1),
        change(23, PENDING, Event.CANCEL, ended_at=9.0),
        change(99, RUNNING, Event.FAIL, ended_at=99.0, exit_status=99, signal=0),
    ]
    arrays = {20: 17, 21: 17, 22: 17, 23: 18}
    assert marks_of(changes, arrays) == {17: Marks(5.0, 12.0, (2, 0)), 18: Marks(None, 9.0, (0, 0))}

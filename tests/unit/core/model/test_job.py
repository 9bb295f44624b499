"""The transition table. What is not in it raises; what is final stays."""

import itertools

import pytest

from rankd.core.errors import InvalidTransition
from rankd.core.model.job import ACTIVE_STATES, FINAL_STATES, TRANSITIONS, Event, State, next_state

PENDING, ALLOCATED, RUNNING = State.PENDING, State.ALLOCATED, State.RUNNING

ALLOWED = {
    (None, Event.SUBMIT): PENDING,
    (None, Event.SPLIT): PENDING,
    (PENDING, Event.SPLIT): PENDING,
    (PENDING, Event.RUN_OUT): RUNNING,
    (PENDING, Event.HOLD): PENDING,
    (PENDING, Event.RELEASE): PENDING,
    (PENDING, Event.UPDATE): PENDING,
    (PENDING, Event.ELIGIBLE): PENDING,
    (PENDING, Event.MATCH): PENDING,
    (PENDING, Event.CANCEL): State.CANCELLED,
    (PENDING, Event.ALLOCATE): ALLOCATED,
    (ALLOCATED, Event.START): RUNNING,
    (ALLOCATED, Event.COMPLETE): State.COMPLETED,
    (ALLOCATED, Event.FAIL): State.FAILED,
    (ALLOCATED, Event.TIME_OUT): State.TIMEOUT,
    (ALLOCATED, Event.CANCEL): State.CANCELLED,
    (ALLOCATED, Event.LOSE_NODE): State.NODE_LOST,
    (ALLOCATED, Event.EXCEED_MEMORY): State.OUT_OF_MEMORY,
    (ALLOCATED, Event.REQUEUE): PENDING,
    (ALLOCATED, Event.TAKE_BACK): PENDING,
    (RUNNING, Event.IDLE): RUNNING,
    (RUNNING, Event.SIGNAL): RUNNING,
    (RUNNING, Event.UPDATE): RUNNING,
    (RUNNING, Event.COMPLETE): State.COMPLETED,
    (RUNNING, Event.FAIL): State.FAILED,
    (RUNNING, Event.TIME_OUT): State.TIMEOUT,
    (RUNNING, Event.CANCEL): State.CANCELLED,
    (RUNNING, Event.LOSE_NODE): State.NODE_LOST,
    (RUNNING, Event.EXCEED_MEMORY): State.OUT_OF_MEMORY,
    (RUNNING, Event.REQUEUE): PENDING,
}
EVERYTHING = [*itertools.product([None, *State], Event)]


@pytest.mark.parametrize(("state", "event"), EVERYTHING, ids=str)
def test_every_pair_of_state_and_event_is_allowed_or_raises(state, event):
    if (state, event) in ALLOWED:
        assert next_state(7, state, event) is ALLOWED[state, event]
        return
    with pytest.raises(InvalidTransition, match=f"job 7 is {state or 'new'}: the event '{event}'") as caught:
        next_state(7, state, event)
    assert (caught.value.job, caught.value.state, caught.value.event) == (7, state or "new", event)
    assert caught.value.code == "invalid_transition"


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_nothing_leads_out_of_a_final_state(state):
    assert not [event for before, event in TRANSITIONS if before is state]


def test_a_state_is_pending_active_or_final():
    assert {PENDING} | ACTIVE_STATES | FINAL_STATES == set(State)
    assert 1 + len(ACTIVE_STATES) + len(FINAL_STATES) == len(State)


def test_every_state_can_be_reached():
    assert set(TRANSITIONS.values()) == set(State)


def test_every_event_leads_somewhere():
    assert {event for _, event in TRANSITIONS} == set(Event)

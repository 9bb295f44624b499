"""The life of an application, step by step."""

import pytest

from rankd.core.model.application import (
    COMPLETING_S,
    ENDED,
    STARTING_S,
    TRANSITIONS,
    ApplicationEvent,
    ApplicationState,
    Life,
)

NOW = 1_700_000_000.0
NEW = Life(ApplicationState.NEW, NOW, NOW)


def after(*events, life=NEW):
    for later, event in enumerate(events, start=1):
        life = life.after(ApplicationEvent(event), NOW + later)
    return life


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("submit", "accepted"),
        ("submit submit", "accepted"),
        ("submit allocate", "starting"),
        ("submit allocate submit", "starting"),
        ("submit allocate allocate", "running"),
        ("submit allocate timeout", "running"),
        ("submit allocate fail", "running"),  # a failed job does not end what has more to do
        ("submit allocate allocate allocate submit", "running"),
        ("submit empty", "completing"),  # cancelled before it began
        ("submit allocate empty", "completing"),
        ("submit allocate empty submit", "running"),
        ("submit allocate empty timeout", "completed"),
        ("submit allocate empty fail", "failed"),
        ("submit allocate empty timeout submit", "accepted"),
        ("submit allocate empty fail submit", "accepted"),
        ("allocate", "new"),
        ("submit timeout", "accepted"),
        ("submit allocate empty timeout timeout", "completed"),
    ],
)
def test_what_happens_to_jobs_moves_an_application_on(events, state):
    assert after(*events.split()).state == state


def test_every_state_but_new_can_be_reached_and_every_one_left():
    assert set(TRANSITIONS.values()) == set(ApplicationState) - {ApplicationState.NEW}
    assert {state for state, _ in TRANSITIONS} == set(ApplicationState)


def test_an_event_that_changes_nothing_leaves_the_time_alone():
    assert after("submit", "submit") == Life(ApplicationState.ACCEPTED, NOW + 1, NOW)


def test_an_application_that_ended_begins_anew_and_one_that_was_completing_goes_on():
    assert after("submit", "empty", "timeout", "submit").created_at == NOW + 4
    assert after("submit", "empty", "submit").created_at == NOW


@pytest.mark.parametrize(
    ("state", "lasts"), [("starting", STARTING_S), ("completing", COMPLETING_S), ("running", None), ("accepted", None)]
)
def test_only_starting_and_completing_are_over_some_day(state, lasts):
    life = Life(ApplicationState(state), NOW, NOW)
    if lasts is None:
        assert not life.is_over_at(NOW + 1e9)
    else:
        assert [life.is_over_at(NOW + lasts - 1), life.is_over_at(NOW + lasts)] == [False, True]


def test_nothing_but_a_new_job_leads_out_of_the_end():
    assert {event for state, event in TRANSITIONS if state in ENDED} == {ApplicationEvent.SUBMIT}

"""The story in the error of an impossible transition."""

from __future__ import annotations

from rankd.core.errors import LONGEST_STORY, InvalidTransition, PastEvent

SUBMIT = PastEvent("submit", "pending", 1709210096.0, "alice")
CANCEL = PastEvent("cancel", "cancelled", 1709210106.5, "root")


def test_an_impossible_transition_tells_what_happened_to_the_job_when_and_by_whom():
    error = InvalidTransition(17, "cancelled", "start").with_events([SUBMIT, CANCEL])
    assert (error.job, error.state, error.event, error.events) == (17, "cancelled", "start", (SUBMIT, CANCEL))
    assert (error.code, error.status) == ("invalid_transition", 409)
    assert (
        str(error)
        == error.message
        == (
            "job 17 is cancelled: the event 'start' is not possible in this state; its events: "
            "submit at 2024-02-29T12:34:56Z by alice (then pending), "
            "cancel at 2024-02-29T12:35:06Z by root (then cancelled)"
        )
    )


def test_a_long_story_is_told_from_its_last_events():
    events = [SUBMIT._replace(actor=f"user{n}") for n in range(LONGEST_STORY + 3)]
    message = InvalidTransition(17, "pending", "start", events).message
    assert "; its events: 3 earlier ones, then submit at 2024-02-29T12:34:56Z by user3 (then pending), " in message
    assert message.count("submit at") == LONGEST_STORY


def test_without_recorded_events_it_names_the_job_the_state_and_the_event():
    message = InvalidTransition(17, "new", "start").message
    assert message == "job 17 is new: the event 'start' is not possible in this state"

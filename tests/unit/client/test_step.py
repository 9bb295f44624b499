import pytest

from rankd.client.step import OUTCOME_UNKNOWN, RETRY_PAUSE_S, Ask, Effort, Pause, answer, next_step
from rankd.core.errors import RankdError, Refused, Unavailable

ASK = Ask("job.show", b"{}", dict)


class Clock:
    """Goes on by what an operation pauses, and by what its requests take."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run(plan, clock, outcomes, takes_s=0.0):
    """Carry an operation out with these outcomes of requests; returns its result and the requests' time limits."""
    limits, result, error, outcomes = [], None, None, iter(outcomes)
    while True:
        try:
            step = next_step(plan, result, error)
        except StopIteration as done:
            return done.value, limits
        result = error = None
        if isinstance(step, Pause):
            clock.now += step.polled_s
            continue
        limits.append(step.timeout_s)
        clock.now += takes_s
        outcome = next(outcomes)
        result, error = (None, outcome) if isinstance(outcome, Exception) else (outcome, None)


def test_what_is_not_answered_is_asked_again_until_it_is():
    away = [Unavailable("no_answer", "")] * 3
    assert run(answer(ASK, Effort(60, clock := Clock())), clock, [*away, "yes"])[0] == "yes"


def test_the_last_error_is_raised_in_time():
    clock = Clock()
    with pytest.raises(Unavailable):
        run(answer(ASK, Effort(5, clock)), clock, [Unavailable("busy", "")] * 100)
    assert clock.now <= 5


def test_a_refusal_is_not_asked_again():
    with pytest.raises(Refused):
        run(answer(ASK, Effort(60, clock := Clock())), clock, [Refused("unknown_job", ""), "yes"])


def test_a_request_whose_answer_can_not_be_decoded_is_not_asked_again():
    clock = Clock()
    with pytest.raises(RankdError, match="got int") as caught:
        run(answer(ASK, Effort(60, clock)), clock, [Unavailable("unreadable_answer", "got int"), "yes"])
    assert (caught.value.code, caught.value.retryable, clock.now) == ("unexpected_answer", False, 0.0)


@pytest.mark.parametrize("code", sorted(OUTCOME_UNKNOWN))
def test_a_change_without_a_key_is_not_repeated_if_it_may_have_taken_place(code):
    with pytest.raises(Unavailable):
        run(answer(ASK, Effort(60, clock := Clock()), changes=True), clock, [Unavailable(code, ""), "yes"])
    assert run(answer(ASK, Effort(60, clock)), clock, [Unavailable(code, ""), "yes"])[0] == "yes"


def test_a_change_that_was_turned_away_is_repeated():
    clock = Clock()
    assert run(answer(ASK, Effort(60, clock), changes=True), clock, [Unavailable("busy", ""), "yes"])[0] == "yes"


def test_without_patience_the_one_request_has_its_whole_time():
    clock = Clock()
    assert run(answer(ASK, Effort(0, clock)), clock, ["yes"]) == ("yes", [ASK.timeout_s])


def test_requests_never_last_longer_than_there_is_time():
    clock = Clock()
    _, limits = run(answer(ASK, Effort(60, clock), until=12.0), clock, [Unavailable("no_answer", ""), "yes"], 9.0)
    assert limits == [10.0, pytest.approx(12.0 - 9.0 - RETRY_PAUSE_S)]

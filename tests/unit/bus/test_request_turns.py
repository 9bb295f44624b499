"""Askers take turns, each within bounds of its own; who asks too much delays only itself."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.bus.request_turns import (
    ALWAYS_REQUESTS,
    MAX_BYTES_PER_ASKER,
    MAX_REQUESTS,
    MAX_REQUESTS_PER_ASKER,
    MOST_RUNNING,
    MOST_RUNNING_BYTES,
    TOKEN_BYTES,
    RequestTurns,
)
from rankd.wire.subject import sender_in

RATE = 10.0
BURST = 20


def turns(rate=None):
    return RequestTurns(lambda _name: rate)


def add(waiting, name, number=1, n_bytes=10):
    """The first refusal, or None."""
    refusals = [waiting.add(name, f"{name} {at}", n_bytes) for at in range(number)]
    return next((refusal for refusal in refusals if refusal is not None), None)


def taken(waiting, now=0.0, most=10**6):
    """The askers of the requests that are answered now, in order."""
    found = []
    while len(found) < most and (turn := waiting.take(now)) is not None:
        found.append(turn)
    return found


def names(found):
    return [turn.asker for turn in found]


def test_askers_take_turns_whatever_each_has_waiting():
    waiting = turns()
    add(waiting, "alice", 5)
    add(waiting, "bob", 2)
    add(waiting, "carol")
    assert names(taken(waiting)) == ["alice", "bob", "carol", "alice", "bob", "alice", "alice", "alice"]


def test_the_requests_of_an_asker_keep_their_order():
    waiting = turns()
    add(waiting, "alice", 5)
    assert [turn.request for turn in taken(waiting)] == [f"alice {at}" for at in range(5)]


def test_one_who_comes_later_waits_for_one_request_of_each_other():
    waiting = turns()
    add(waiting, "alice", 100)
    add(waiting, "bob", 100)
    taken(waiting, most=50)
    add(waiting, "carol")
    assert "carol" in names(taken(waiting, most=3))


def test_only_so_many_requests_of_an_asker_are_answered_at_a_time():
    waiting = turns()
    add(waiting, "alice", MOST_RUNNING + 5)
    found = taken(waiting)
    assert len(found) == MOST_RUNNING
    assert not waiting.has_ready
    add(waiting, "bob")
    assert names(taken(waiting)) == ["bob"]
    waiting.finish("alice", 10)
    assert waiting.has_ready
    assert names(taken(waiting)) == ["alice"]


def test_large_requests_of_an_asker_are_answered_few_at_a_time():
    waiting = turns()
    half = MOST_RUNNING_BYTES // 2
    add(waiting, "alice", 5, n_bytes=half)
    add(waiting, "bob", n_bytes=10 * MOST_RUNNING_BYTES)
    assert names(taken(waiting)) == ["alice", "bob", "alice"]
    waiting.finish("alice", half)
    assert names(taken(waiting)) == ["alice"]


def test_one_above_its_rate_waits_and_delays_nobody():
    waiting = turns(RATE)
    add(waiting, "alice", BURST + 5)
    assert len(taken(waiting)) == BURST
    assert waiting.next_at == pytest.approx(0.1)
    add(waiting, "bob")
    assert names(taken(waiting)) == ["bob"]
    assert taken(waiting, 0.05) == []
    assert names(taken(waiting, 0.11)) == ["alice"]
    assert len(taken(waiting, 10.0)) == 4
    assert waiting.next_at is None


def test_a_large_request_counts_several_times():
    waiting = turns(RATE)
    add(waiting, "alice", 5, n_bytes=4 * TOKEN_BYTES)
    assert len(taken(waiting)) == BURST / 5


def test_when_the_service_ends_rates_delay_nobody():
    waiting = turns(RATE)
    add(waiting, "alice", 100)
    taken(waiting)
    waiting.lift_rates()
    assert len(taken(waiting)) == 100 - BURST


def test_an_asker_with_too_many_requests_is_refused_and_told_which_limit():
    waiting = turns(RATE)
    assert add(waiting, "alice", MAX_REQUESTS_PER_ASKER) is None
    refusal = add(waiting, "alice")
    assert (refusal.code, refusal.status) == ("too_many_waiting", 429)
    assert "admission.max_requests_per_s, 10" in refusal.message
    assert f"{MAX_REQUESTS_PER_ASKER} requests of yours" in refusal.message
    assert add(waiting, "bob") is None


def test_an_asker_with_too_many_bytes_is_refused_but_never_its_first_request():
    waiting = turns()
    assert add(waiting, "alice", n_bytes=2 * MAX_BYTES_PER_ASKER) is None
    assert add(waiting, "alice").code == "too_many_waiting"


def test_many_who_flood_together_leave_everybody_some_room():
    waiting = turns()
    for number in range(MAX_REQUESTS // MAX_REQUESTS_PER_ASKER):
        assert add(waiting, f"flood{number}", MAX_REQUESTS_PER_ASKER) is None
    assert add(waiting, "bob", ALWAYS_REQUESTS) is None
    assert (add(waiting, "bob").code, add(waiting, "bob").status) == ("busy", 503)


def test_one_who_asks_nothing_costs_no_memory_but_for_what_is_left_of_the_rate():
    waiting = turns(RATE)
    add(waiting, "alice", BURST + 1)
    for turn in (found := taken(waiting)):
        waiting.finish(turn.asker, turn.n_bytes)
    assert len(found) == BURST
    [last] = taken(waiting, 1 / RATE)
    waiting.finish(last.asker, last.n_bytes)
    assert not waiting._askers
    add(waiting, "alice")
    assert not taken(waiting, 1 / RATE)
    assert names(taken(waiting, 2 / RATE)) == ["alice"]


def test_a_user_has_one_allowance_over_the_gateway_and_over_nats():
    waiting = turns(RATE)
    ways = ["rankd.v1.user.alice.job.list", "rankd.v1.gateway.head.alice.job.list",
            "rankd.v1.gateway.n1.alice.job.list", "rankd.v1.user.alice.as-admin.job.list"]  # fmt: skip
    for subject in ways:
        add(waiting, sender_in(subject), BURST)
    add(waiting, sender_in("rankd.v1.gateway.head.bob.job.list"), BURST)
    assert Counter(names(taken(waiting))) == {"user.alice": BURST, "user.bob": BURST}
    for subject in ways:
        add(waiting, sender_in(subject), MAX_REQUESTS_PER_ASKER)
    refusal = waiting.add(sender_in(ways[1]), "one more", 10)
    assert refusal.code == "too_many_waiting"
    assert waiting.add(sender_in("rankd.v1.admin.alice.job.list"), "as an administrator", 10) is None


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(0, MOST_RUNNING_BYTES)),
        st.tuples(st.just("take"), st.floats(0, 5)),
        st.tuples(st.just("finish"), st.integers(0, 100)),
    ),
    max_size=200,
)


@given(EVENTS, st.sampled_from([None, RATE, 1000.0]))
def test_every_request_is_answered_once_whatever_happens(events, rate):
    waiting, now, running = turns(rate), 0.0, []
    added, answered = 0, 0
    for event in events:
        match event:
            case ("add", name, n_bytes):
                added += waiting.add(name, added, n_bytes) is None
            case ("take", passed):
                now += passed
                running += taken(waiting, now)
            case ("finish", at) if running:
                turn = running.pop(at % len(running))
                waiting.finish(turn.asker, turn.n_bytes)
                answered += 1
    for _ in range(10_000):
        if not (running or waiting.has_ready or waiting.next_at is not None):
            break
        now = max(now, waiting.next_at or now)
        running += taken(waiting, now)
        for turn in running:
            waiting.finish(turn.asker, turn.n_bytes)
        answered += len(running)
        running = []
    assert answered == added
    assert (waiting.load.requests, waiting.load.n_bytes) == (0, 0)

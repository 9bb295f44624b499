"""When notifications are sent: pauses that grow, an end, and turns that let nobody flood a mailbox."""

from hypothesis import given
from hypothesis import strategies as st

from rankd.core.notification.pace import HOUR_S, Pauses, is_given_up, next_slot, pause_after, send_at


@given(st.integers(1, 10**9), st.floats(0.001, 100), st.floats(100, 10**6))
def test_pauses_grow_up_to_the_longest(attempts, first_s, longest_s):
    pauses = Pauses(first_s=first_s, longest_s=longest_s)
    assert first_s <= pause_after(attempts, pauses) <= pause_after(attempts + 1, pauses) <= longest_s


def test_a_day_has_some_thirty_attempts():
    at, attempts = 0.0, 0
    while not is_given_up(0.0, at, 86_400.0):
        attempts += 1
        at += pause_after(attempts, Pauses())
    assert 25 < attempts < 35


@given(st.lists(st.floats(0, 100_000), min_size=1, max_size=200), st.integers(1, 50))
def test_no_hour_has_more_than_twice_the_number_and_no_user_waits_for_nothing(gaps, per_hour):
    now, slot, sent = 0.0, None, []
    for gap in gaps:
        now += gap / 1_000
        slot = next_slot(slot, now, per_hour)
        sent.append(send_at(slot, now))
    assert sent == sorted(sent)
    assert sent[0] <= gaps[0] / 1_000 + 1e-6
    for begin in sent:
        assert sum(begin <= at < begin + HOUR_S for at in sent) <= 2 * per_hour + 1


def test_over_a_longer_time_the_rate_holds():
    slot, sent = None, []
    for _ in range(1_000):
        slot = next_slot(slot, 0.0, 100)
        sent.append(send_at(slot, 0.0))
    assert sum(at <= 0 for at in sent) == 100
    assert sum(at <= 5 * HOUR_S for at in sent) == 600

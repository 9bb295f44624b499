"""How often a password may be tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.errors import Unavailable
from rankd.services.web import attempts as limits
from rankd.services.web.attempts import MOST_PER_ADDRESS, MOST_PER_NAME, MOST_PER_SITE, WINDOW_S, Attempts


def test_a_name_may_be_tried_some_times_in_a_window_from_any_address():
    attempts = Attempts()
    assert [attempts.begin("alice", f"10.0.0.{n}", n) for n in range(MOST_PER_NAME)] == [0.0] * MOST_PER_NAME
    assert attempts.begin("ALICE", "10.0.1.1", 20.0) == WINDOW_S - 20.0
    assert attempts.begin("bob", "10.0.0.1", 20.0) == 0.0
    assert attempts.begin("alice", "10.0.1.1", WINDOW_S) == 0.0


def test_an_address_may_try_some_names_and_a_network_of_ipv6_is_one_address():
    attempts = Attempts()
    for n in range(MOST_PER_ADDRESS):
        assert attempts.begin(f"u{n}", f"2001:db8::{n:x}", 0.0) == 0.0
    assert attempts.begin("another", "2001:db8::ffff", 1.0) == WINDOW_S - 1.0
    assert attempts.begin("another", "2001:db8:0:1::1", 1.0) == 0.0


def test_an_address_of_ipv4_in_ipv6_is_the_same():
    attempts = Attempts()
    for n in range(MOST_PER_ADDRESS):
        attempts.begin(f"u{n}", "10.0.0.7", 0.0)
    assert attempts.begin("another", "::ffff:10.0.0.7", 0.0) > 0
    assert attempts.begin("another", "::ffff:10.0.0.8", 0.0) == 0.0


def test_who_signs_in_begins_again():
    attempts = Attempts()
    for _ in range(3 * MOST_PER_NAME):
        assert attempts.begin("alice", "10.0.0.7", 0.0) == 0.0
        attempts.forget("alice", "10.0.0.7")


def test_a_refused_attempt_does_not_prolong_the_wait():
    attempts = Attempts()
    for _ in range(MOST_PER_NAME):
        attempts.begin("alice", "10.0.0.7", 0.0)
    for second in range(1, 500):
        assert attempts.begin("alice", "10.0.0.7", float(second)) > 0
    assert attempts.begin("alice", "10.0.0.7", WINDOW_S) == 0.0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["10.0.0.1", "2001:db8::1", "x"])), max_size=120))
def test_no_window_has_more_attempts_than_allowed(tried):
    attempts, made = Attempts(), list[tuple[str, str, float]]()
    for place, (name, address) in enumerate(tried):
        now = place * WINDOW_S / 37
        if not attempts.begin(name, address, now):
            made.append((name, address, now))
    for name, address, end in made:
        inside = [one for one in made if end - WINDOW_S < one[2] <= end]
        assert sum(one[0] == name for one in inside) <= MOST_PER_NAME
        assert sum(one[1] == address for one in inside) <= MOST_PER_ADDRESS


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"])
def test_the_users_of_this_machine_do_not_share_a_limit(address):
    attempts = Attempts()
    for n in range(2 * MOST_PER_SITE):
        assert attempts.begin(f"u{n}", address, 0.0) == 0.0
    for _ in range(MOST_PER_NAME):
        assert attempts.begin("alice", address, 1.0) == 0.0
    assert attempts.begin("alice", address, 1.0) == WINDOW_S


def test_a_site_of_ipv6_has_a_limit_for_all_its_networks():
    attempts = Attempts()
    for n in range(MOST_PER_SITE):
        assert attempts.begin(f"u{n}", f"2001:db8:0:{n:x}::1", 0.0) == 0.0
    assert attempts.begin("another", "2001:db8:0:ffff::1", 1.0) == WINDOW_S - 1.0
    assert attempts.begin("another", "2001:db8:1::1", 1.0) == 0.0


def test_other_names_do_not_make_a_name_forgotten_that_was_tried_several_times(monkeypatch):
    monkeypatch.setattr(limits, "MOST_NAMES", 10)
    attempts = Attempts()
    for _ in range(MOST_PER_NAME):
        attempts.begin("alice", "127.0.0.1", 0.0)
    for n in range(100):
        attempts.begin(f"u{n}", f"127.0.0.{n}", 1.0)
    assert attempts.begin("alice", "127.1.1.1", 2.0) > 0


def test_if_all_names_were_tried_several_times_others_wait(monkeypatch):
    monkeypatch.setattr(limits, "MOST_NAMES", 10)
    attempts = Attempts()
    for n in range(20):
        attempts.begin(f"u{n // 2}", "127.0.0.1", float(n))
    with pytest.raises(Unavailable) as refused:
        attempts.begin("another", "127.0.0.1", 20.0)
    assert refused.value.code == "busy"
    assert attempts.begin("u3", "127.0.0.1", 20.0) == 0.0
    assert attempts.begin("another", "127.0.0.1", 1.0 + WINDOW_S) == 0.0, "u0 is out of its window"


def test_an_attempt_that_is_taken_back_does_not_count():
    attempts = Attempts()
    for n in range(3 * MOST_PER_ADDRESS):
        assert attempts.begin("alice", "10.0.0.7", float(n)) == 0.0
        attempts.take_back("alice", "10.0.0.7", float(n))
    assert (len(attempts.names), len(attempts.networks)) == (0, 0)
    attempts.take_back("alice", "10.0.0.7", 0.0)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "MOST_NAMES", 10)
    monkeypatch.setattr(limits, "MOST_NETWORKS", 12)
    attempts = Attempts()
    for n in range(100):
        attempts.begin(f"u{n}", f"10.0.0.{n // 2}", float(n))
    assert (len(attempts.names), len(attempts.networks)) == (10, 12)

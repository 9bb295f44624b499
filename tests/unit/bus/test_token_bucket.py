"""A bucket of tokens gives a burst at once, and its rate over a longer time."""

import pytest

from rankd.bus import token_bucket
from rankd.bus.token_bucket import BURST_S, TokenBucket, TokenBuckets

RATE = 10.0


def spent(bucket, now, rate=RATE, cost=1.0):
    """The number of times that the cost can be spent now."""
    number = 0
    while not bucket.wait_s(cost, rate, now):
        bucket.take(cost)
        number += 1
    return number


def test_it_begins_full_and_fills_at_its_rate_up_to_a_burst():
    bucket = TokenBucket(RATE, 0.0)
    assert spent(bucket, 0.0) == RATE * BURST_S
    assert spent(bucket, 0.0) == 0
    assert spent(bucket, 1.0) == RATE
    assert spent(bucket, 1000.0) == RATE * BURST_S


def test_it_says_how_long_to_wait():
    bucket = TokenBucket(RATE, 0.0)
    spent(bucket, 0.0)
    assert bucket.wait_s(1.0, RATE, 0.0) == pytest.approx(0.1)
    assert bucket.wait_s(1.0, RATE, 0.05) == pytest.approx(0.05)
    assert bucket.wait_s(5.0, RATE, 0.05) == pytest.approx(0.45)


def test_a_cost_above_what_it_holds_waits_for_a_full_bucket_and_leaves_a_debt():
    bucket = TokenBucket(RATE, 0.0)
    assert bucket.wait_s(100.0, RATE, 0.0) == 0
    bucket.take(100.0)
    assert bucket.wait_s(1.0, RATE, 0.0) == pytest.approx(8.1)
    assert bucket.wait_s(100.0, RATE, 9.9) == pytest.approx(0.1)


def test_another_rate_counts_at_once():
    bucket = TokenBucket(RATE, 0.0)
    spent(bucket, 0.0)
    assert bucket.wait_s(1.0, 2 * RATE, 0.0) == pytest.approx(0.05)
    assert spent(bucket, 1000.0, rate=2 * RATE) == 2 * RATE * BURST_S


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing():
    bucket = TokenBucket(RATE, 10.0)
    assert spent(bucket, 10.0) == RATE * BURST_S
    assert spent(bucket, 0.0) == 0
    assert spent(bucket, 10.5) == RATE / 2


def test_each_asker_has_a_bucket_and_a_refused_request_costs_nothing():
    buckets = TokenBuckets(burst_s=5.0)
    assert [buckets.spend("a", 1, 1.0, 0.0) for _ in range(6)] == [0.0] * 5 + [1.0]
    assert not any(buckets.spend("a", 1, 1.0, number / 1000) == 0 for number in range(1, 900))
    assert buckets.spend("a", 1, 1.0, 1.0) == 0
    assert buckets.spend("b", 1, 1.0, 1.0) == 0


def test_when_there_are_too_many_those_are_forgotten_who_lose_nothing(monkeypatch):
    monkeypatch.setattr(token_bucket, "MOST_ASKERS", 4)
    buckets = TokenBuckets(burst_s=1.0)
    for asker, now in (("a", 0.0), ("b", 0.0), ("c", 8.5), ("d", 9.0)):
        buckets.spend(asker, 1, 1.0, now)
    assert buckets.spend("e", 1, 1.0, 9.1) == 0
    assert sorted(buckets._of) == ["c", "d", "e"]
    assert buckets.spend("d", 1, 1.0, 9.1) > 0


def test_there_are_never_more_than_the_most_although_all_of_them_ask(monkeypatch):
    monkeypatch.setattr(token_bucket, "MOST_ASKERS", 10)
    buckets = TokenBuckets()
    for number in range(1000):
        buckets.spend(f"user{number}", 20, RATE, number / 1000)
        assert len(buckets._of) <= 10
    assert buckets.spend("user999", 20, RATE, 1.0) > 0
    assert buckets.spend("user996", 20, RATE, 1.0) > 0

"""A bucket of tokens gives a burst at once, and its rate over a longer time."""

import pytest

from rankd.bus.token_bucket import BURST_S, TokenBucket

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

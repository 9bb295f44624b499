"""When a lease is over: for its holder, and for those who stand by."""

import pytest

from rankd.core.role.lease import (
    LEAST_SILENCE_S,
    RENEW_EVERY_S,
    TTL_S,
    Holding,
    RoleRow,
    Seen,
    left_s,
    may_take,
    renewal_in_s,
    seen,
)

AT = 1_000_000.0
ROW = RoleRow(epoch=4, holder="a:1", renewed_at=AT, ttl_s=TTL_S, is_vacant=False)


def test_a_role_whose_holder_has_resigned_is_free_at_once():
    assert may_take(Seen(ROW._replace(is_vacant=True), 10.0), AT, 10.0)


def test_a_role_that_was_renewed_is_not_taken():
    assert not may_take(Seen(ROW, 10.0), AT + 0.9 * TTL_S, 10.0 + 0.9 * TTL_S)


def test_an_expired_role_is_taken_once_a_living_holder_would_have_renewed_it():
    expired = AT + TTL_S
    assert not may_take(Seen(ROW, 10.0), expired, 10.0)
    assert not may_take(Seen(ROW, 10.0), expired, 10.0 + 0.9 * LEAST_SILENCE_S)
    assert may_take(Seen(ROW, 10.0), expired, 10.0 + LEAST_SILENCE_S)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_step_of_the_databases_clock_neither_keeps_a_role_vacant_nor_takes_it_from_a_living_holder(step_s):
    assert may_take(Seen(ROW, 10.0), AT + step_s, 10.0 + TTL_S), "nobody renews it"
    assert not may_take(Seen(ROW, 10.0), AT + step_s, 10.0 + RENEW_EVERY_S), "its next renewal is just due"


def test_silence_counts_from_the_last_change_of_the_row():
    first = seen(None, ROW, 10.0)
    assert seen(first, ROW, 12.0) == first
    renewed = ROW._replace(renewed_at=AT + 1)
    assert seen(first, renewed, 12.0) == Seen(renewed, 12.0)
    other = ROW._replace(epoch=5, holder="b:1")
    assert seen(first, other, 12.0) == Seen(other, 12.0)


def test_the_holder_counts_from_before_it_sent_its_renewal_so_it_stops_before_anyone_takes_over():
    held, answered_after_s = Holding(epoch=4, sent_at=50.0), 0.4
    standby = seen(None, ROW, 50.0 + answered_after_s)
    now = 50.0 + TTL_S
    assert left_s(held, now) <= 0
    assert not may_take(standby, AT, now), "a standby of the same clock still waits"


def test_a_renewal_is_due_a_while_before_the_lease_is_over():
    held = Holding(epoch=4, sent_at=50.0)
    assert renewal_in_s(held, 50.0) == RENEW_EVERY_S
    assert renewal_in_s(held, 50.0 + 2 * RENEW_EVERY_S) == 0.0
    assert left_s(held, 50.0 + 2 * RENEW_EVERY_S) > 0, "two renewals may fail"

"""Usage: however and whenever it is looked at, it is what the job records say."""

import math

import numpy as np
import pytest
from builder import advanced
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.core.fairshare.decay import Accumulators, charge, decay

MANY = settings(max_examples=200, deadline=None)
FEWER = settings(max_examples=50, deadline=None)
HALF_LIVES = st.one_of(st.none(), st.floats(60.0, 1e8))
SPANS = st.floats(0.0, 1e6)
N_USERS = 3
EPOCH = 1.7e9


@st.composite
def job_records(draw):
    """(user, rate, start, end), in seconds since EPOCH."""
    one = st.tuples(st.integers(0, N_USERS - 1), st.floats(0.0, 1e4), SPANS, st.floats(0.0, 1e5))
    return [
        (user, rate, EPOCH + start, EPOCH + start + length)
        for user, rate, start, length in draw(st.lists(one, max_size=12))
    ]


def recomputed(jobs, now, half_life_s) -> np.ndarray:
    """The page's formula, job by job."""
    usage = np.zeros(N_USERS)
    for user, rate, start, end in jobs:
        usage[user] += charge(rate, start, end, now, half_life_s)
    return usage


def idle(half_life_s) -> Accumulators:
    return Accumulators(usage=np.zeros(N_USERS), usage_at=np.full(N_USERS, EPOCH), half_life_s=half_life_s)


def rates_of(jobs, at: float) -> np.ndarray:
    rates = np.zeros(N_USERS)
    for user, rate, start, end in jobs:
        rates[user] += rate if start <= at < end else 0.0
    return rates


@given(st.floats(0, 1e12), SPANS, HALF_LIVES)
@FEWER
def test_decay_in_one_step_is_decay_in_a_thousand(usage, elapsed, half_life_s):
    stepped = np.array([usage])
    for _ in range(1000):
        stepped = decay(stepped, elapsed / 1000, half_life_s)
    assert stepped == pytest.approx(decay(np.array([usage]), elapsed, half_life_s), rel=1e-9)


@given(job_records(), st.lists(SPANS, max_size=10), HALF_LIVES)
@MANY
def test_ended_jobs_charged_at_any_instants_give_what_the_records_say(jobs, looks, half_life_s):
    held = idle(half_life_s)
    for at, job in sorted(
        [(EPOCH + look, None) for look in looks] + [(job[3], job) for job in jobs], key=lambda e: e[0]
    ):
        held = advanced(held, at)
        if job:
            user, rate, start, end = job
            held = held.charged(np.array([user]), np.array([rate]), np.array([start]), np.array([end]))
    now = EPOCH + 1.2e6
    assert held.usage_now(now) == pytest.approx(recomputed(jobs, now, half_life_s), rel=1e-9, abs=1e-300)


@given(job_records(), st.lists(SPANS, max_size=10), HALF_LIVES)
@MANY
def test_running_rates_advanced_in_uneven_steps_give_what_the_records_say(jobs, looks, half_life_s):
    instants = {EPOCH + look for look in looks} | {job[2] for job in jobs} | {job[3] for job in jobs}
    held, before = idle(half_life_s), EPOCH
    for at in sorted(instants):
        held, before = advanced(held, at, rates_of(jobs, before)), at
    assert held.usage == pytest.approx(recomputed(jobs, before, half_life_s), rel=1e-9, abs=1e-300)


@given(st.floats(0.0, 1e4), SPANS, SPANS, SPANS, HALF_LIVES)
@MANY
def test_a_charge_cut_in_two_is_the_whole(rate, first, second, later, half_life_s):
    cut, end = EPOCH + first, EPOCH + first + second
    now = end + later
    parts = charge(rate, EPOCH, cut, now, half_life_s) + charge(rate, cut, end, now, half_life_s)
    assert parts == pytest.approx(float(charge(rate, EPOCH, end, now, half_life_s)), rel=1e-9, abs=1e-300)


@given(st.floats(1e-6, 1e4), st.floats(1.0, 1e5), SPANS, st.floats(1e3, 1e6))
@MANY
def test_a_charge_is_the_closed_form(rate, length, later, half_life_s):
    exact = 2 ** (-later / half_life_s) - 2 ** (-(later + length) / half_life_s)
    got = float(charge(rate, 0.0, length, length + later, half_life_s))
    assert got == pytest.approx(rate * half_life_s / math.log(2) * exact, rel=1e-9, abs=1e-30)


@given(st.floats(0.0, 1e4), SPANS, SPANS, HALF_LIVES)
@MANY
def test_a_charge_is_at_most_rate_times_time_and_never_negative(rate, length, later, half_life_s):
    got = float(charge(rate, EPOCH, EPOCH + length, EPOCH + length + later, half_life_s))
    assert 0 <= got <= rate * ((EPOCH + length) - EPOCH) * (1 + 1e-12)

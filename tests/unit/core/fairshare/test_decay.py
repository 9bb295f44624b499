"""What jobs are charged, and how it fades."""

import math

import numpy as np
import pytest
from builder import advanced

from rankd.core.fairshare.decay import Accumulators, billing_rate, charge, decay

WEEK = 604800.0


def accumulators(usage, at=0.0, half_life_s=WEEK):
    values = np.array(usage, dtype=float)
    return Accumulators(usage=values, usage_at=np.full(len(values), at), half_life_s=half_life_s)


def one(values):
    return np.array([values])


def test_after_a_half_life_half_is_left():
    assert decay(np.array([8.0, 0.0]), WEEK, WEEK).tolist() == [4.0, 0.0]
    assert decay(np.array([8.0]), 3 * WEEK, WEEK).tolist() == [1.0]


def test_without_a_half_life_nothing_decays():
    assert decay(np.array([8.0]), 1e12, None).tolist() == [8.0]


def test_a_clock_stepped_back_decays_nothing():
    assert decay(np.array([8.0]), -WEEK, WEEK).tolist() == [8.0]


def test_a_half_life_next_to_nothing_forgets_all():
    assert decay(np.array([8.0]), 1.0, 5e-324).tolist() == [0.0]
    assert charge(1.0, 0.0, 10.0, 20.0, 5e-324) == 0.0


def test_a_charge_is_the_closed_form():
    rate, start, end, now = 3.0, 1000.0, 400_000.0, 1_000_000.0
    expected = rate * WEEK / math.log(2) * (2 ** (-(now - end) / WEEK) - 2 ** (-(now - start) / WEEK))
    assert charge(rate, start, end, now, WEEK) == pytest.approx(expected, rel=1e-13)


def test_a_charge_that_never_decays_is_rate_times_time():
    assert charge(3.0, 10.0, 15.0, 1e9, None) == 15.0


def test_a_short_charge_loses_no_digits():
    # 2^(-a) - 2^(-b) would have about six digits left here
    assert charge(1.0, 1.7e9, 1.7e9 + 2**-10, 1.7e9 + 2**-10, 1e9) == pytest.approx(2**-10, rel=1e-12)


def test_a_running_job_is_charged_up_to_now_and_a_future_one_nothing():
    assert charge(2.0, 0.0, math.inf, 5.0, None) == 10.0
    assert charge(2.0, 10.0, 20.0, 5.0, WEEK) == 0.0


def test_an_interval_that_ends_before_it_begins_is_none():
    assert charge(2.0, 10.0, 5.0, 20.0, WEEK) == 0.0


def test_usage_now_with_running_rates_is_decay_and_charge():
    held = accumulators([8.0, 8.0], half_life_s=10.0)
    got = held.usage_now(10.0, np.array([0.0, 3.0]))
    assert got == pytest.approx([4.0, 4.0 + float(charge(3.0, 0.0, 10.0, 10.0, 10.0))])
    assert held.usage.tolist() == [8.0, 8.0]


def test_usage_catches_up_only_once_after_the_clock_was_stepped_back():
    held = accumulators([8.0], at=100.0, half_life_s=10.0)
    back = advanced(held, 50.0, np.array([1.0]))
    assert (back.usage.tolist(), back.usage_at.tolist()) == ([8.0], [100.0])
    assert advanced(back, 110.0).usage.tolist() == [4.0]


def test_every_association_has_its_own_instant():
    held = Accumulators(usage=np.array([8.0, 8.0]), usage_at=np.array([0.0, 10.0]), half_life_s=10.0)
    assert advanced(held, 20.0).usage.tolist() == [2.0, 4.0]


def test_an_ended_job_is_charged_in_full_however_late():
    held = accumulators([5.0, 5.0], at=500.0, half_life_s=100.0)
    charged = held.charged(np.array([1]), one(2.0), one(0.0), one(300.0))
    assert charged.usage[0] == 5.0
    assert charged.usage[1] == pytest.approx(5.0 + float(charge(2.0, 0.0, 300.0, 500.0, 100.0)))


def test_a_job_that_ended_on_a_faster_clock_loses_nothing():
    charged = accumulators([0.0], half_life_s=None).charged(np.array([0]), one(2.0), one(0.0), one(30.0))
    assert (charged.usage.tolist(), charged.usage_at.tolist()) == ([60.0], [30.0])
    assert charged.usage_now(10.0).tolist() == [60.0]


def test_several_jobs_of_one_association_add_up():
    users, ends = np.array([0, 0, 1]), np.array([10.0, 20.0, 20.0])
    charged = accumulators([0.0, 0.0], half_life_s=10.0).charged(users, np.ones(3), np.zeros(3), ends)
    first, second = (float(charge(1.0, 0.0, end, 20.0, 10.0)) for end in (10.0, 20.0))
    assert charged.usage == pytest.approx([first + second, second])


def test_external_usage_counts_as_of_its_instant():
    held = accumulators([8.0, 8.0], at=10.0, half_life_s=10.0)
    assert held.added(np.array([0]), one(4.0), 20.0).usage_now(20.0).tolist() == [8.0, 4.0]
    assert held.added(np.array([0]), one(4.0), 0.0).usage_now(10.0).tolist() == [10.0, 8.0]


@pytest.mark.parametrize(
    ("resources", "nodes", "billing", "usage_factor", "rate"),
    [
        ({"vcore": 500}, 1, {"vcore": 1.0}, 1.0, 0.5),
        ({"vcore": 4000, "memory": 2**33}, 3, {"vcore": 1.0}, 1.0, 12.0),
        ({"vcore": 4000, "gpu": 2}, 2, {"vcore": 1.0, "gpu": 10.0}, 0.5, 24.0),
        ({"memory": 2**30}, 1, {"memory": 2.0**-30, "vcore": 1.0}, 1.0, 1.0),
        ({"vcore": 4000}, 1, {}, 1.0, 0.0),
        ({"vcore": 4000}, 1, {"vcore": 1.0}, 0.0, 0.0),
    ],
)
def test_billing_is_weight_times_amount_over_all_nodes(resources, nodes, billing, usage_factor, rate):
    assert billing_rate(resources, nodes, billing, usage_factor) == rate


@pytest.mark.parametrize(("cpus", "memory_gib", "billed"), [(1, 60, 16.0), (16, 1, 16.25), (16, 60, 31.0)])
def test_published_billing_of_cpus_and_memory(cpus, memory_gib, billed):
    """https://slurm.schedmd.com/priority_multifactor.html, "Fair-share Factor": CPU=1.0 and Mem=0.25G."""
    weights = {"vcore": 1.0, "memory": 0.25 / 2**30}
    assert billing_rate({"vcore": 1000 * cpus, "memory": memory_gib * 2**30}, 1, weights, 1.0) == billed


@pytest.mark.parametrize(
    ("resources", "billing", "rate"),
    [
        ({"gpu": 2}, {"gpu": 16.0}, 32.0),
        ({"gpu": 2, "gpu:a100": 2}, {"gpu": 16.0}, 32.0),
        ({"gpu": 2, "gpu:a100": 2}, {"gpu": 16.0, "gpu:a100": 40.0}, 80.0),
        ({"gpu": 3, "gpu:a100": 1, "gpu:v100": 1}, {"gpu": 16.0, "gpu:a100": 40.0}, 72.0),
        ({"gpu": 1, "gpu:a100": 1}, {"gpu:v100": 4.0}, 0.0),
    ],
)
def test_the_price_of_a_model_wins_over_that_of_all(resources, billing, rate):
    assert billing_rate(resources, 1, billing, 1.0) == rate

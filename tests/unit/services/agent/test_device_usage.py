"""What is kept of the samples of a device."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rankd.services.agent.device_usage import RECENT_S, Usage

SAMPLES = st.lists(st.floats(0, 1), min_size=1, max_size=200)


@given(SAMPLES)
def test_the_sums_of_all_reports_are_those_of_all_samples(samples):
    usage, busy, count = Usage(0.0), 0.0, 0
    for number, sample in enumerate(samples):
        usage.add(10.0 * number, sample, None)
        if number % 7 == 0:
            report = usage.report()
            busy, count = busy + report.busy, count + report.samples
    last = usage.report()
    assert count + last.samples == len(samples)
    assert math.isclose(busy + last.busy, math.fsum(samples), abs_tol=1e-9)


@given(SAMPLES)
def test_the_recent_mean_is_of_the_last_ten_minutes(samples):
    usage = Usage(0.0)
    for number, sample in enumerate(samples):
        usage.add(10.0 * number, sample, None)
    window = samples[-int(RECENT_S / 10) :]
    assert math.isclose(usage.report().recent, math.fsum(window) / len(window), abs_tol=1e-9)


def test_the_peak_is_the_most_since_the_start():
    usage = Usage(0.0)
    for at, memory in enumerate((5, 9, None, 2)):
        usage.add(float(at), 0.5, memory)
    assert [usage.report().peak_bytes, usage.report().peak_bytes] == [9, 9]


def test_a_device_is_idle_since_its_last_sample_of_one_percent():
    usage = Usage(100.0)
    usage.add(110.0, 0.009, None)
    assert usage.report().idle_s == 10.0
    usage.add(120.0, 0.01, None)
    usage.add(150.0, 0.0, None)
    assert usage.report().idle_s == 30.0


def test_a_device_without_a_utilisation_is_never_idle():
    usage = Usage(0.0)
    usage.add(1e6, None, 7)
    assert (usage.report().idle_s, usage.report().recent, usage.report().peak_bytes) == (None, None, 7)


def test_waking_up_is_told_once_and_only_after_a_long_rest():
    usage = Usage(0.0)
    assert [usage.add(at, busy, None) for at, busy in ((10.0, 0.5), (300.0, 0.0), (400.0, 0.5))] == [False] * 3
    assert not usage.add(999.0, 0.0, None)
    assert usage.add(1000.0, 0.02, None)
    assert not usage.add(1010.0, 0.02, None)

"""Histograms count each duration in one bucket, and Prometheus gets the sums up to each bound."""

import pytest

from rankd.core.metric.figure import BOUNDS_S, Histogram, cumulative, flag


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (0.001, 0), (0.0011, 1), (300.0, len(BOUNDS_S) - 1), (1e9, len(BOUNDS_S))]
)
def test_a_duration_counts_up_to_the_bound_that_it_does_not_exceed(seconds, bucket):
    histogram = Histogram()
    histogram.add(seconds)
    figure = histogram.figure("name", "phase")
    assert [place for place, count in enumerate(figure.counts) if count] == [bucket]
    assert (figure.value, figure.labels) == (seconds, ("phase",))


def test_the_counts_up_to_each_bound_never_fall_and_end_with_all():
    histogram = Histogram()
    for seconds in (0.002, 0.002, 7, 4000):
        histogram.add(seconds)
    found = cumulative(histogram.figure("name").counts)
    assert [bound for bound, _ in found] == [*map(str, BOUNDS_S), "+Inf"]
    numbers = [number for _, number in found]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 4


def test_a_flag_is_a_number():
    assert [type(flag("name", is_true).value) for is_true in (True, False)] == [float, float]

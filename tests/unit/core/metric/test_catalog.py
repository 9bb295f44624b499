"""Names, units and labels of all metrics, by Prometheus' rules."""

import re

import pytest

from rankd.core.metric.catalog import METRICS, metric_of


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_name_follows_the_rules(metric):
    assert re.fullmatch(r"(rankd|process)(_[a-z0-9]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    if metric.kind == "histogram":
        assert metric.name.endswith("_seconds")
    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent|count|sum|bucket)$", metric.name)
    assert metric.text.endswith(".")
    assert len(set(metric.labels)) == len(metric.labels)
    assert not {"job", "instance", "le", "quantile"} & set(metric.labels), "Prometheus sets these itself"


def test_a_series_is_found_by_the_name_that_queries_use():
    assert metric_of("rankd_cycle_duration_seconds_bucket").kind == "histogram"
    assert metric_of("rankd_cycle_duration_seconds_count").kind == "histogram"
    assert metric_of("rankd_cycle_duration_seconds") is None, "a histogram has no series of its own name"
    assert metric_of("rankd_jobs_bucket") is None
    assert metric_of("rankd_nothing") is None

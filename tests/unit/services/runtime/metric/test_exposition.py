"""The text that Prometheus reads: valid whatever names hold, in the format that is asked for, parsed by its library."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from rankd.core.metric.catalog import METRICS
from rankd.core.metric.figure import BOUNDS_S, Figure, Histogram
from rankd.core.metric.label import label
from rankd.services.runtime.metric import exposition
from rankd.services.runtime.metric.exposition import check_installed, rendered

OPEN = "application/openmetrics-text;version=1.0.0"
HOSTILE = 'a"\\\n} 1\n# EOF\nb{\udcff\u202e'


def samples(figures, accept="", read=parse):
    text = rendered(figures, accept).body.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read(text) for sample in family.samples
    }  # fmt: skip


@pytest.mark.parametrize(("accept", "read"), [("", parse), (OPEN, parse_open)])
def test_each_metric_can_be_read_back(accept, read):
    one = [
        Figure(name, 2.5, ("x",) * len(metric.labels), (1,) * (len(BOUNDS_S) + 1) if metric.kind == "histogram" else ())
        for name, metric in METRICS.items()
    ]
    found = samples(one, accept, read)
    for name, metric in METRICS.items():
        labels = tuple(sorted((key, "x") for key in metric.labels))
        series = f"{name}_sum" if metric.kind == "histogram" else name
        assert found[series, labels] == 2.5, series


@pytest.mark.parametrize(("accept", "read"), [("", parse), (OPEN, parse_open)])
def test_a_hostile_name_stays_one_value_of_a_label(accept, read):
    found = samples([Figure("rankd_user_pending_jobs", 3, (label(HOSTILE),))], accept, read)
    assert found == {("rankd_user_pending_jobs", (("user", label(HOSTILE)),)): 3}


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram()
    for seconds in (0.002, 0.3, 0.3):
        histogram.add(seconds)
    found = samples([histogram.figure("rankd_cycle_duration_seconds", "cycle")])
    of = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert (of["0.001"], of["0.0025"], of["0.5"], of["+Inf"]) == (0, 1, 3, 3)
    assert found["rankd_cycle_duration_seconds_count", (("phase", "cycle"),)] == 3


def test_what_is_unknown_or_said_twice_is_left_out():
    figures = [
        *(Figure("rankd_nodes_silent", value) for value in (1.0, 2.0)),  # two processes say it
        Figure("rankd_of_a_newer_version", 1),
        Figure("rankd_jobs", 1, ("too few labels",)),
    ]
    assert samples(figures) == {("rankd_nodes_silent", ()): 1.0}


def test_the_type_of_the_content_is_that_of_the_format():
    assert rendered([], "").content_type.startswith("text/plain; version=0.0.4")
    assert rendered([], OPEN).content_type.startswith("application/openmetrics-text")
    assert rendered([], OPEN).body == b"# EOF\n"


def test_without_the_library_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr(exposition, "NEEDED", "no_such_package")
    with pytest.raises(Exception, match=r"pip install 'rankd\[metrics\]'"):
        check_installed()

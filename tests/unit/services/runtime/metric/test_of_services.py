"""What services say in ``rankd diag``, as figures: the same numbers, each under a metric that exists."""

import pytest

from rankd.core.metric.catalog import METRICS
from rankd.services.notifier.statistic import NotifierStatistic
from rankd.services.runtime.metric.of_services import (
    of_forecaster,
    of_notifier,
    of_prioritizer,
    of_scheduler,
    of_streams,
)
from rankd.services.runtime.statistic import Durations
from rankd.wire.diag import (
    FollowerDiag,
    ForecasterDiag,
    NotifierDiag,
    PluginDiag,
    PrioritizerDiag,
    SchedulerDiag,
    StreamDiag,
)

SCHEDULER = SchedulerDiag(
    pid=1, started_at=0.0, cycles=4, triggers={"nodes": 3, "submitted": 2}, durations={}, started=9, backfilled=2,
    reserved=1, looked_at=5, deepest=7, last_cycle_at=100.0, generation=41, generation_age_s=2.5, is_stale=True,
    stale=1,
)  # fmt: skip
PLUGIN = PluginDiag(pid=None, state="late", asked=5, failed=1, late=2, ended=3, last_s=None, message="text of others")
PRIORITIZER = PrioritizerDiag(
    pid=1, started_at=0.0, passes=2, deltas=6, durations={}, generation=8, jobs=3, last_pass_at=None, failing={},
    plugins={"site": PLUGIN},
)  # fmt: skip
NOTIFIER = NotifierDiag(pid=1, started_at=0.0, noted=4, sent=3, failed=2, given_up=1, in_flight=1, durations={})
FORECASTER = ForecasterDiag(
    pid=1, started_at=0.0, forecasts=2, last_made_at=50.0, jobs=7, beyond=1, durations={}
)  # fmt: skip
STREAM = StreamDiag(
    name="RANKD_EVENTS", copies=2, leader=None, messages=5, alarms=["no leader"],
    followers=[FollowerDiag(name="b2", is_current=False, behind=12)],
)  # fmt: skip


@pytest.fixture
def durations():
    found = Durations()
    for phase in ("full.rank", "full.visible", "delta.rank"):
        found.add(phase, 0.2)
    return found.histograms


def by_name(figures):
    return {(figure.name, *figure.labels): figure.value for figure in figures}


def test_each_figure_belongs_to_a_metric_with_as_many_labels(durations):
    everything = [
        *of_scheduler(SCHEDULER, durations), *of_prioritizer(PRIORITIZER, durations), *of_notifier(NOTIFIER, durations),
        *of_forecaster(FORECASTER, durations), *of_streams([STREAM]),
    ]  # fmt: skip
    for figure in everything:
        assert len(METRICS[figure.name].labels) == len(figure.labels), figure
        assert bool(figure.counts) == (METRICS[figure.name].kind == "histogram"), figure


def test_the_scheduler(durations):
    found = by_name(of_scheduler(SCHEDULER, durations))
    assert found["rankd_cycle_triggers_total", "nodes"] == 3
    assert (found["rankd_allocations_total",], found["rankd_backfilled_total",]) == (9, 2)
    assert (found["rankd_scheduler_generation_age_seconds",], found["rankd_scheduler_generation_stale",]) == (2.5, 1)


def test_the_prioritizers_phases_are_by_kind_of_pass(durations):
    found = by_name(of_prioritizer(PRIORITIZER, durations))
    assert found["rankd_pass_duration_seconds", "full", "rank"] == 0.2
    assert found["rankd_pass_duration_seconds", "delta", "rank"] == 0.2
    assert (found["rankd_plugin_working", "site"], found["rankd_plugin_late_total", "site"]) == (0, 2)
    assert not any("text of others" in part for key in found for part in key)


def test_a_stream_without_a_leader_and_a_copy_that_is_behind():
    found = by_name(of_streams([STREAM]))
    assert (found["rankd_stream_leader", "RANKD_EVENTS"], found["rankd_stream_alarms", "RANKD_EVENTS"]) == (0, 1)
    assert found["rankd_stream_replica_lag_operations", "RANKD_EVENTS", "b2"] == 12
    assert found["rankd_stream_replica_current", "RANKD_EVENTS", "b2"] == 0


def test_a_reset_of_diag_begins_the_histograms_again_too():
    """Prometheus takes a smaller count for a restart."""
    statistic = NotifierStatistic(lambda: 0.0)
    statistic.durations.add("send", 0.2)
    assert statistic.durations.histograms
    statistic.reset()
    assert not statistic.durations.histograms

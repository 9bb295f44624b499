"""What services keep about themselves for ``rankd diag``, as figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rankd.core.metric.figure import Figure, Histogram, flag
from rankd.core.metric.label import MOST, bounded, label
from rankd.wire.diag import ForecasterDiag, NotifierDiag, PluginDiag, PrioritizerDiag, SchedulerDiag, StreamDiag

Histograms = Mapping[str, Histogram]


def of_scheduler(diag: SchedulerDiag, durations: Histograms) -> Iterator[Figure]:
    """Cycles and their results, and the generation in use."""
    yield Figure("rankd_cycles_total", diag.cycles)
    for trigger, number in bounded(diag.triggers).items():
        yield Figure("rankd_cycle_triggers_total", number, (trigger,))
    yield Figure("rankd_allocations_total", diag.started)
    yield Figure("rankd_backfilled_total", diag.backfilled)
    yield Figure("rankd_stale_generations_total", diag.stale)
    yield Figure("rankd_reserved_jobs", diag.reserved)
    if diag.last_cycle_at is not None:
        yield Figure("rankd_cycle_timestamp_seconds", diag.last_cycle_at)
    yield Figure("rankd_scheduler_generation", diag.generation)
    yield Figure("rankd_scheduler_generation_age_seconds", diag.generation_age_s)
    yield flag("rankd_scheduler_generation_stale", diag.is_stale)
    yield from _histograms("rankd_cycle_duration_seconds", durations)


def of_prioritizer(diag: PrioritizerDiag, durations: Histograms) -> Iterator[Figure]:
    """Passes by kind and phase, and factors of other packages."""
    yield Figure("rankd_generations_total", diag.passes, ("full",))
    yield Figure("rankd_generations_total", diag.deltas, ("delta",))
    yield Figure("rankd_ranked_jobs", diag.jobs)
    for name, histogram in list(durations.items())[:MOST]:
        kind, _, phase = name.partition(".")
        yield histogram.figure("rankd_pass_duration_seconds", label(kind), label(phase))
    for name, plugin in list(diag.plugins.items())[:MOST]:
        yield from _of_plugin(label(name), plugin)


def _of_plugin(name: str, plugin: PluginDiag) -> Iterator[Figure]:
    yield flag("rankd_plugin_working", plugin.state == "good", name)
    yield Figure("rankd_plugin_requests_total", plugin.asked, (name,))
    yield Figure("rankd_plugin_failures_total", plugin.failed, (name,))
    yield Figure("rankd_plugin_late_total", plugin.late, (name,))
    yield Figure("rankd_plugin_worker_ends_total", plugin.ended, (name,))


def of_notifier(diag: NotifierDiag, durations: Histograms) -> Iterator[Figure]:
    """Notifications and attempts."""
    yield Figure("rankd_notifications_noted_total", diag.noted)
    yield Figure("rankd_notifications_sent_total", diag.sent)
    yield Figure("rankd_notification_failures_total", diag.failed)
    yield Figure("rankd_notifications_given_up_total", diag.given_up)
    yield Figure("rankd_notifications_in_flight", diag.in_flight)
    yield from _histograms("rankd_notification_duration_seconds", durations)


def of_forecaster(diag: ForecasterDiag, durations: Histograms) -> Iterator[Figure]:
    """Forecasts, and what the last one was about."""
    yield Figure("rankd_forecasts_total", diag.forecasts)
    if diag.last_made_at is not None:
        yield Figure("rankd_forecast_timestamp_seconds", diag.last_made_at)
    yield Figure("rankd_forecast_jobs", diag.jobs)
    yield Figure("rankd_forecast_beyond_jobs", diag.beyond)
    yield from _histograms("rankd_forecast_duration_seconds", durations)


def of_streams(streams: Iterable[StreamDiag]) -> Iterator[Figure]:
    """The broker's streams and their copies, as of the last look."""
    for one in list(streams)[:MOST]:
        stream = label(one.name)
        yield flag("rankd_stream_leader", one.leader is not None, stream)
        yield Figure("rankd_stream_alarms", len(one.alarms), (stream,))
        if one.messages is not None:
            yield Figure("rankd_stream_messages", one.messages, (stream,))
        for copy in one.followers[:MOST]:
            yield Figure("rankd_stream_replica_lag_operations", copy.behind, (stream, label(copy.name)))
            yield flag("rankd_stream_replica_current", copy.is_current, stream, label(copy.name))


def _histograms(name: str, durations: Histograms) -> list[Figure]:
    return [histogram.figure(name, label(phase)) for phase, histogram in list(durations.items())[:MOST]]

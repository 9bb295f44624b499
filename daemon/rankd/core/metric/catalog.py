"""All metrics. What is not listed here is not exported; ``docs/reference/metrics.md`` is made from it."""

from __future__ import annotations

from rankd.core.metric.figure import Kind, Metric

SITE, EACH, AGENT = "site", "each process", "agent"
"""Who exports a metric, besides the names of services. The site's come from the records."""


def _made(kind: Kind, by: str, listed: dict[str, tuple[str, str]]) -> list[Metric]:
    """Metrics by name: labels, and what it is."""
    return [
        Metric(name=f"rankd_{name}", kind=kind, text=text, labels=tuple(labels.split()), by=by)
        for name, (labels, text) in listed.items()
    ]


_SITE = _made(
    "gauge",
    SITE,
    {
        "jobs": (
            "state queue reason",
            "Jobs that have not ended, tasks of arrays included. reason: why a pending one waits.",
        ),
        "user_pending_jobs": ("user", "Pending jobs of the users with most of them. Only where users see all jobs."),
        "nodes": ("state", "Nodes by state."),
        "nodes_silent": ("", "Nodes that are up or draining and have sent no sign of life for 30 s."),
        "node_oldest_heartbeat_timestamp_seconds": ("", "The oldest last sign of life of the nodes that are up."),
        "nodes_drained": (
            "who",
            "Drained nodes by who drained them: health check, administrator, or rankd (a hook failed, or the agent).",
        ),
        "devices": ("type state", "Devices of nodes by state: ok, taken, drained, failed, gone."),
        "devices_by_model": (
            "type model use",
            "Devices by model. use: in use, free, or why a job can't have it: taken, drained, failed, gone.",
        ),
        "outbox_events": ("", "Events of jobs that are recorded and not published yet."),
        "event_lag_seconds": ("", "For how long the oldest of them has waited."),
        "notifications_waiting": ("", "Notifications that are not sent yet."),
        "notification_oldest_seconds": ("", "For how long the oldest of them has waited."),
        "adapter_failing": ("adapter", "1: the last reading of this adapter failed; its last valid input counts."),
        "adapter_read_timestamp_seconds": ("adapter", "When the source last provided the input in force."),
        "factor_failing": ("factor", "1: this factor failed in the newest generation; its last good values count."),
        "generation": ("", "The number of the newest generation of priorities."),
        "generation_timestamp_seconds": ("", "When the newest generation became visible."),
        "full_pass_timestamp_seconds": ("", "When the newest full pass over all jobs was made."),
        "role_held": ("role", "1: a process holds this role; 0: its last holder has given it back."),
        "role_epoch": ("role", "How many holders this role has had."),
        "role_alive_timestamp_seconds": ("role", "The last sign of life of its holder."),
        "records_timestamp_seconds": ("", "When the figures about the records were read."),
        "records_read_seconds": ("", "How long it took to read them."),
        "records_readable": ("", "0: the last try to read them failed, so they are not exported."),
    },
)

_EACH = [
    *_made(
        "gauge",
        EACH,
        {
            "service_info": ("service version", "1: this process runs, with this version of rankd."),
            "service_healthy": (
                "service",
                "1: no loop of it hangs, and it waits for nothing. Missing until it is ready.",
            ),
            "bus_connected": ("service", "1: there is a connection to the broker."),
            "configuration": ("service", "The number of the configuration that the service uses."),
            "disk_free_bytes": ("service disk", "Free bytes on the disk of the records, or of the jobs' output."),
            "disk_size_bytes": ("service disk", "The size of this disk."),
        },
    ),
    *_made(
        "counter",
        EACH,
        {
            "unreadable_messages_total": ("service kind", "Messages that could not be decoded."),
            "configuration_failures_total": ("service", "Configurations that were refused or could not be used."),
        },
    ),
]

_PROCESS = [
    Metric(name="process_cpu_seconds_total", kind="counter", text="Processor time.", labels=("service",), by=EACH),
    *(
        Metric(name=f"process_{name}", kind="gauge", text=text, labels=("service",), by=EACH)
        for name, text in {
            "resident_memory_bytes": "Memory in use.",
            "virtual_memory_bytes": "Virtual memory.",
            "start_time_seconds": "When the process started.",
            "open_fds": "Open files.",
            "max_fds": "The most files that may be open.",
        }.items()
    ),
]

_INTAKE = [
    *_made(
        "counter",
        "intake",
        {
            "requests_total": ("verb code", "Answers to users and nodes; code: ok, or the error's."),
            "submitted_jobs_total": ("code", "Jobs that were submitted; code: ok, or why one was refused."),
            "foreign_reports_total": ("", "Reports of nodes about allocations that they were never given."),
        },
    ),
    *_made(
        "gauge",
        "intake",
        {
            "stream_leader": ("stream", "1: a broker leads this stream; 0: none does, so nothing is stored."),
            "stream_alarms": ("stream", "What is wrong with this stream; `rankd diag` has the words."),
            "stream_messages": ("stream", "Messages that are stored."),
            "stream_replica_lag_operations": ("stream replica", "Operations that this copy lacks."),
            "stream_replica_current": ("stream replica", "1: this copy is up to date."),
        },
    ),
]

_SCHEDULER = [
    *_made(
        "counter",
        "scheduler",
        {
            "cycles_total": ("", "Scheduling cycles."),
            "cycle_triggers_total": ("trigger", "Reasons for cycles; one cycle may have several."),
            "allocations_total": ("", "Jobs that were allocated."),
            "backfilled_total": ("", "Those of them that started ahead of a job that ranks higher."),
            "stale_generations_total": ("", "How often generations were overdue."),
        },
    ),
    *_made(
        "gauge",
        "scheduler",
        {
            "reserved_jobs": ("", "Jobs with a reservation after the last cycle."),
            "cycle_timestamp_seconds": ("", "When the last cycle began."),
            "scheduler_generation": ("", "The generation that the scheduler uses."),
            "scheduler_generation_age_seconds": ("", "Since it was first seen."),
            "scheduler_generation_stale": ("", "1: generations are overdue, so newer jobs come after the ranked ones."),
        },
    ),
    *_made("histogram", "scheduler", {"cycle_duration_seconds": ("phase", "Durations of cycles; cycle: all phases.")}),
]

_PRIORITIZER = [
    *_made(
        "counter",
        "prioritizer",
        {
            "generations_total": ("kind", "Generations: full passes and deltas."),
            "plugin_requests_total": ("plugin", "How often a factor of another package was asked for values."),
            "plugin_failures_total": ("plugin", "How often it failed."),
            "plugin_late_total": ("plugin", "How often it became late."),
            "plugin_worker_ends_total": ("plugin", "How often its worker has ended."),
        },
    ),
    *_made(
        "gauge",
        "prioritizer",
        {
            "ranked_jobs": ("", "Jobs in the newest generation."),
            "plugin_working": ("plugin", "1: the last answer of this factor was good."),
        },
    ),
    *_made("histogram", "prioritizer", {"pass_duration_seconds": ("kind phase", "Durations of passes by phase.")}),
]

_NOTIFIER = [
    *_made(
        "counter",
        "notifier",
        {
            "notifications_noted_total": ("", "Notifications that were noted."),
            "notifications_sent_total": ("", "Those that a receiver has taken."),
            "notification_failures_total": ("", "Attempts that failed."),
            "notifications_given_up_total": ("", "Those that became dead letters."),
        },
    ),
    *_made("gauge", "notifier", {"notifications_in_flight": ("", "Attempts at this moment.")}),
    *_made("histogram", "notifier", {"notification_duration_seconds": ("scheme", "Durations of attempts.")}),
]

_FORECASTER = [
    *_made("counter", "forecaster", {"forecasts_total": ("", "Forecasts that were made.")}),
    *_made(
        "gauge",
        "forecaster",
        {
            "forecast_timestamp_seconds": ("", "When the last one was made."),
            "forecast_jobs": ("", "Jobs with a range, or with a reason for having none."),
            "forecast_beyond_jobs": ("", "Pending jobs beyond the horizon."),
        },
    ),
    *_made(
        "histogram",
        "forecaster",
        {"forecast_duration_seconds": ("phase", "Durations: forecast, as a whole; processor, its processor time.")},
    ),
]

_OTHERS = [
    *_made("gauge", "gateway", {"login_connections": ("", "Open connections to the login socket.")}),
    *_made("gauge", "web", {"web_tabs": ("", "Open tabs that follow a view.")}),
    *_made(
        "gauge",
        AGENT,
        {
            "agent_nodes": ("", "Nodes that this agent represents."),
            "agent_running_allocations": ("", "Allocations that have not ended here."),
            "agent_unrecorded_reports": ("", "Reports that the intake has not recorded yet."),
            "agent_registered": ("", "1: the intake knows this agent."),
        },
    ),
]

METRICS = {
    metric.name: metric
    for metric in (
        *_SITE, *_INTAKE, *_SCHEDULER, *_PRIORITIZER, *_NOTIFIER, *_FORECASTER, *_OTHERS, *_EACH, *_PROCESS
    )
}  # fmt: skip
"""By name."""

HELPERS = ("_bucket", "_sum", "_count")
"""What Prometheus appends to the name of a histogram."""


def metric_of(series: str) -> Metric | None:
    """The metric to which a name in a rule or a dashboard belongs; None if rankd does not export it.

    >>> metric_of("rankd_pass_duration_seconds_bucket").name
    'rankd_pass_duration_seconds'
    """
    for suffix in HELPERS:
        found = METRICS.get(series.removesuffix(suffix))
        if series.endswith(suffix) and found is not None and found.kind == "histogram":
            return found
    found = METRICS.get(series)
    return None if found is None or found.kind == "histogram" else found

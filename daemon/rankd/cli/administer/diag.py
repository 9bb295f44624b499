"""``rankd diag``: statistics of the services, as Slurm's sdiag.

The exit status is 0 if all services are ready. It is 1 if one is not ready, a stream has an alarm, a device
has failed or rankd has drained a node, and 3 if one does not answer.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.cli.common.session import asker
from rankd.cli.common.table import Column, print_json, print_table
from rankd.client.session import with_bus
from rankd.core.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from rankd.cli.common.option import Subparsers
    from rankd.wire.diag import (
        ConfigurationDiag,
        Diag,
        NotificationBacklog,
        NotifierDiag,
        PluginDiag,
        PrioritizerDiag,
        RelayDiag,
        RoleDiag,
        SchedulerDiag,
        Spread,
        StreamDiag,
    )
    from rankd.wire.message import Health

Line = tuple[str, object]


def add_parser(subparsers: Subparsers) -> None:
    """Add ``diag``."""
    text = "Statistics of the services since their start: cycles, passes, durations, failures."
    parser = add_command(subparsers, "diag", run, text)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("-r", "--reset", action="store_true", help="print, then set all counts to zero (needs --admin)")
    add_place(parser, broker=True)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the intake, print its answer."""
    from rankd.cli.common.place import find
    from rankd.wire.diag import Diag, DiagRequest
    from rankd.wire.encoding import encode

    subject = asker(arguments).subject("diag.show")
    question = encode(DiagRequest(reset=arguments.reset))
    found = with_bus(find(arguments), lambda bus: bus.request(subject, question, Diag))
    if arguments.json:
        print_json(found)
    else:
        _print(found)
    return _status(found)


def _status(found: Diag) -> int:
    """The largest exit status that ``rankd health`` would give for one of the services."""
    if found.scheduler is None or found.prioritizer is None:
        return 3
    asked = [found.health, found.scheduler.health, found.prioritizer.health]
    if found.forecaster is not None:
        asked.append(found.forecaster.health)
    if found.notifier is not None:
        asked.append(found.notifier.health)
    is_well = all(health is not None and health.ready for health in asked)
    has_alarms = bool(found.devices or found.nodes) or any(stream.alarms for stream in found.streams)
    return 0 if is_well and not has_alarms else 1


def _print(found: Diag) -> None:
    for line in lines(found):
        print(line)
    for title, service in (
        ("Scheduler", found.scheduler),
        ("Prioritizer", found.prioritizer),
        ("Forecaster", found.forecaster),
        ("Notifier", found.notifier),
    ):
        if service is not None and service.durations:
            print(f"\n{title}: milliseconds of the last ones")
            _print_durations(service.durations)


def lines(found: Diag) -> Iterator[str]:
    """The lines of the report, without durations."""
    parts = (
        (
            "Intake",
            [
                *_health(found.health),
                *_intakes(found),
                *_configuration(found.configuration, "refused"),
                *_unreadable(found.unreadable),
                *_foreign(found.foreign_reports),
            ],
        ),
        ("Scheduler", None if found.scheduler is None else _scheduler(found.scheduler)),
        ("Prioritizer", None if found.prioritizer is None else _prioritizer(found.prioritizer)),
        ("Forecaster", list(_forecaster(found))),
        ("Notifier", _notifier(found)),
        ("Roles", ((role.name, _role(role)) for role in found.roles)),
        ("Relay", _relay(found.relay)),
        ("Streams", _streams(found.streams)),
        ("Nodes", (("ALARM", printable(text)) for text in found.nodes)),
        ("Devices", (("ALARM", printable(text)) for text in found.devices)),
        ("Adapters", ((row["name"], _adapter(row)) for row in found.adapters)),
    )
    for title, listed in parts:
        if listed is None:
            yield f"{title}: no answer"
            continue
        own = list(listed)
        if own:
            yield f"{title}:"
            yield from (f"  {name:<18} {value}" for name, value in own)


def _health(of: Health | None) -> Iterator[Line]:
    if of is None:
        yield "ready", "not known: the service has an older version"
    else:
        yield ("ready" if of.ready else "NOT READY"), printable(of.detail)


def _scheduler(of: SchedulerDiag) -> Iterator[Line]:
    yield from _health(of.health)
    stale = (
        ", STALE: the prioritizer is silent; newer jobs are placed after it, in order of submission"
        if of.is_stale
        else ""
    )
    yield "since", f"{_when(of.started_at)} (pid {of.pid})"
    yield from _configuration(of.configuration, "not taken")
    yield "generation", f"{of.generation}, {of.generation_age_s:.1f} s old{stale}"
    yield "times stale", of.stale
    yield "cycles", f"{of.cycles}, the last {_when(of.last_cycle_at)}"
    yield "triggers", ", ".join(f"{kind} {n}" for kind, n in sorted(of.triggers.items())) or "none"
    yield "jobs started", f"{of.started}, of these {of.backfilled} backfilled"
    yield "reservations", of.reserved
    yield "jobs looked at", f"{of.looked_at} in the last cycle, at most {of.deepest}"
    yield from _unreadable(of.unreadable)


def _prioritizer(of: PrioritizerDiag) -> Iterator[Line]:
    yield from _health(of.health)
    yield "since", f"{_when(of.started_at)} (pid {of.pid})"
    yield from _configuration(of.configuration, "not taken")
    yield "generation", f"{of.generation}, {of.jobs} jobs ranked"
    yield "full passes", f"{of.passes}, the last {_when(of.last_pass_at)}"
    yield "delta generations", of.deltas
    for factor, message in sorted(of.failing.items()):
        yield f"factor {factor}", f"fails: {message}"
    for factor, plugin in sorted(of.plugins.items()):
        yield f"worker {factor}", _plugin(plugin)
    yield from _unreadable(of.unreadable)


def _forecaster(found: Diag) -> Iterator[Line]:
    """Its lines, and how good its ranges were. None of them if none answers and nothing was foreseen."""
    of, record = found.forecaster, found.estimates
    if of is not None:
        yield from _health(of.health)
        yield "since", f"{_when(of.started_at)} (pid {of.pid})"
        yield from _configuration(of.configuration, "not taken")
        yield "forecasts", f"{of.forecasts}, the last of {_when(of.last_made_at)}"
        yield "jobs", f"{of.jobs}, and {of.beyond} beyond the horizon"
        yield from _unreadable(of.unreadable)
    if record.scored and record.within is not None and record.near is not None:
        within, near = (f"{part * 100:.0f} %" for part in (record.within, record.near))
        yield "record", f"of the last {record.scored} jobs {within} started within the range,"
        yield "", f"{near} within 10 minutes of its middle"


def _notifier(found: Diag) -> list[Line] | None:
    """Its lines; None if it does not answer although notifications wait, and none at all where none runs."""
    of, backlog = found.notifier, found.notifications
    if of is None:
        return None if backlog is not None and backlog.waiting else []
    return list(_of_notifier(of, backlog))


def _of_notifier(of: NotifierDiag, backlog: NotificationBacklog | None) -> Iterator[Line]:
    yield from _health(of.health)
    yield "since", f"{_when(of.started_at)} (pid {of.pid})"
    yield from _configuration(of.configuration, "not taken")
    yield "notifications", f"{of.noted} new, {of.sent} sent, {of.given_up} given up, {of.in_flight} on their way"
    yield "failed attempts", f"{of.failed}{f', the last: {printable(of.problem)}' if of.problem else ''}"
    if backlog is not None:
        oldest = (
            f", the oldest for {backlog.oldest_s:.0f} s; {backlog.failing} failed before" if backlog.waiting else ""
        )
        yield "waiting", f"{backlog.waiting}{oldest}"
    yield from _unreadable(of.unreadable)


def _plugin(of: PluginDiag) -> str:
    took = "" if of.last_s is None else f", the last in {of.last_s * 1000:.1f} ms"
    again = f", {of.ended} workers ended" if of.ended else ""
    last = f"; last failure: {of.message}" if of.message else ""
    pid = "" if of.pid is None else f" (pid {of.pid})"
    return f"{of.state}{pid}, {of.asked} asks{took}, {of.failed} failed, {of.late} times late{again}{last}"


def _configuration(of: ConfigurationDiag, failed: str) -> Iterator[Line]:
    bad = f", {of.failed} {failed}" if of.failed else ""
    yield "configuration", f"{'files that are not recorded' if of.number is None else of.number}{bad}"
    for line in (of.message or "").splitlines():
        yield "", line


def _unreadable(of: Mapping[str, int]) -> Iterator[Line]:
    """A line with the number of unreadable messages, if there were any."""
    if of:
        yield "unreadable", ", ".join(f"{n} of {kind}" for kind, n in sorted(of.items()))


def _intakes(found: Diag) -> Iterator[Line]:
    """A line for each intake that answers users, where there may be several."""
    for of in found.intakes:
        state = "answers users" if of.ready else f"NOT READY: {of.detail}"
        yield "instance", printable(f"{of.host}:{of.pid} {state}")


def _foreign(count: int) -> Iterator[Line]:
    """A line with the number of reports about allocations that the node was never given, if there were any."""
    if count:
        yield "foreign reports", count


def _role(of: RoleDiag) -> str:
    if of.resigned_at is not None:
        return f"NOBODY since {_when(of.resigned_at)}; before, {printable(of.holder)}"
    took = "" if of.takeover_s is None else f", the last take-over took {of.takeover_s:.1f} s"
    return f"{printable(of.holder)} since {_when(of.since)}, epoch {of.epoch}{took}"


def _relay(of: RelayDiag) -> Iterator[Line]:
    yield "events waiting", f"{of.events}, the first for {of.lag_s:.1f} s" if of.events else 0


def _streams(streams: Iterable[StreamDiag]) -> Iterator[Line]:
    """A line for each stream, and one for each of its alarms."""
    for of in streams:
        led = "no leader" if of.leader is None else f"led by {printable(of.leader)}"
        copies = f", {of.copies} copies" if of.copies > 1 else ""
        yield of.name, f"{led}{copies}{'' if of.messages is None else f', {of.messages} messages'}"
        yield from (("ALARM", printable(alarm)) for alarm in of.alarms)


def _adapter(row: Mapping[str, object]) -> str:
    failed = f": {row['message']}" if row["message"] else ""
    return f"{row['input']} by {row['plugin']}, {row['state']}, {row['rows']} rows{failed}"


def _print_durations(durations: Mapping[str, Spread]) -> None:
    columns = [Column("PHASE"), *(Column(name, numeric=True) for name in ("N", "MEDIAN", "P90", "P99", "WORST"))]
    cells = [
        [phase, str(of.n), *(f"{seconds * 1000:.2f}" for seconds in (of.median, of.p90, of.p99, of.worst))]
        for phase, of in sorted(durations.items())
    ]
    print_table(columns, cells)


def _when(at: float | None) -> str:
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

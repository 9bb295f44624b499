"""What ``rankd simulate`` reads: the trace or the site's own records, the machine, and the sites to compare."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankd.cli.what_if.trace_file import max_procs, read_trace
from rankd.core.errors import ConfigurationError, Refused
from rankd.core.near_name import cut

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rankd.config.configuration import Configuration
    from rankd.core.model.node import Node
    from rankd.core.simulate.route import Router
    from rankd.core.simulate.site import Site
    from rankd.core.simulate.trace import LeftOut, Selection, TraceJob, WorkJob

MOST_PROCESSORS = 100_000_000
MANY_RECORDS = 1_000_000
MOST_SECONDS = 2.0**37
"""Before the year 6000, so that the largest date that Python knows is none."""
_MOST_NAMED = 5


class SimulationInput(NamedTuple):
    """The jobs, how many are left out, and the sites, each with the directory of its configuration."""

    jobs: Sequence[WorkJob]
    left_out: LeftOut
    sites: Sequence[tuple[Path | None, Site]]


def read_input(arguments: argparse.Namespace) -> SimulationInput:
    """Read all that is needed, and warn on standard error of what does not count.

    Raises:
        Refused: an option, the trace, the machine or a configuration can't be used, or no job is left.
    """
    from rankd.core.simulate.route import Router, check_used
    from rankd.core.simulate.trace import select

    selection, routes = _selection(arguments), _routes(arguments.map)
    records, nodes = _trace_and_nodes(arguments)
    directories: Sequence[Path | None] = arguments.config or [None]
    sites = [(directory, _site(directory, arguments, routes, nodes)) for directory in directories]
    routers, seen = [Router(site) for _, site in sites], _Seen()
    jobs, left_out = select(
        seen.of(records), selection, lambda job, size: any(router.is_too_large(job, size) for router in routers)
    )
    check_used(routes, seen.names)
    if not jobs:
        raise _nothing(seen, left_out)
    for (directory, _), router in zip(sites, routers, strict=True):
        _warn_of_names(directory, router)
    _warn_of_uncounted(jobs, sites[0][1])
    _warn_of_unasked(jobs, sites[0][1])
    if arguments.last is not None and left_out.no_limit:
        _warn(
            f"{left_out.no_limit:,} {'job' if left_out.no_limit == 1 else 'jobs'} without a time limit are left out;"
            " scheduling.default_time_limit_s in rankd.toml gives new jobs one"
        )
    return SimulationInput(jobs, left_out, sites)


class _Seen:
    """What all records of a trace have, also those that are left out."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.first_s, self.last_s = math.inf, -math.inf
        self.n_records = 0

    def of(self, records: Iterable[TraceJob]) -> Iterator[TraceJob]:
        """The same records."""
        for record in records:
            self.n_records += 1
            if self.n_records == MANY_RECORDS:
                _warn(
                    f"more than {MANY_RECORDS:,} records: a million jobs take 0.7 GB of memory and perhaps half an"
                    " hour. --jobs N, or --from and --until, take a part of them"
                )
            self.names.add(record.queue)
            self.names.add(record.partition)
            self.first_s, self.last_s = min(self.first_s, record.submit_s), max(self.last_s, record.submit_s)
            yield record


def _nothing(seen: _Seen, left_out: LeftOut) -> Refused:
    """No job is left: why, and what to do."""
    ways = {
        "no_run_time": "without a run time",
        "no_limit": "without a time limit",
        "no_size": "without a number of processors",
        "too_large": "larger than the machine (--procs, --nodes)",
    }
    found = [f"{count:,} {text}" for name, text in ways.items() if (count := getattr(left_out, name))]
    if found:
        return Refused("no_jobs", f"none of the jobs can be simulated: {', '.join(found)}", "trace")
    span = f"its submissions are from {seen.first_s:.0f} to {seen.last_s:.0f}"
    return Refused("no_jobs", f"the trace has no job between --from and --until: {span} (seconds)", "from")


def _warn_of_uncounted(jobs: Sequence[WorkJob], site: Site) -> None:
    """Say on standard error which resources jobs asked for that no node has, so that they do not count."""
    from rankd.core.simulate.shape import asked_of

    n_jobs: dict[str, int] = {}
    for job in jobs:
        if job.others:
            counted = len(asked_of(job.others, site.types))
            for kind, _ in job.others if not counted else [one for one in job.others if one[0] == "memory"]:
                if kind not in site.types:
                    n_jobs[kind] = n_jobs.get(kind, 0) + 1
    for kind, number in sorted(n_jobs.items()):
        _warn(
            f"{number:,} {'job' if number == 1 else 'jobs'} asked for {kind}, which no node has here, so it does not"
            " count; their waits can be too short. Add it to the nodes (--nodes FILE)"
        )


def _warn_of_unasked(jobs: Sequence[WorkJob], site: Site) -> None:
    """Say on standard error which resources of the nodes no job asks for, such as ``gpus`` in place of ``gpu``."""
    from rankd.core.model.device import GPU, is_device_kind
    from rankd.core.model.quantity import VCORE
    from rankd.core.near_name import near_name

    known = (VCORE, "memory", GPU)
    asked = {kind for job in jobs for kind, _ in job.others}
    for kind in sorted(set(site.types) - asked - set(known)):
        if not is_device_kind(kind):
            near = near_name(kind, known)
            _warn(f"--nodes: no job asks for '{cut(kind)}'{'' if near is None else f'; did you mean {near}?'}")


def _warn(text: str) -> None:
    print(f"rankd: {text}", file=sys.stderr)


def _trace_and_nodes(arguments: argparse.Namespace) -> tuple[Iterable[TraceJob], Sequence[Node]]:
    """The records to simulate, and the machine."""
    if (arguments.trace is None) == (arguments.last is None):
        raise Refused("usage", "give a trace, or --last 30d for the site's own jobs", "trace")
    if arguments.last is not None:
        from rankd.cli.what_if.site_trace import site_records

        own = _nodes(arguments)
        records, nodes = site_records(arguments)
        return records, own or nodes
    if arguments.procs is None and arguments.nodes is None:
        what = "say how large the machine is: --procs N or --nodes FILE"
        known = max_procs(arguments.trace)
        raise Refused(
            "usage", what if known is None else f"{what} (the trace's header says MaxProcs: {known})", "procs"
        )
    return read_trace(arguments.trace), _nodes(arguments)


def _nodes(arguments: argparse.Namespace) -> Sequence[Node]:
    """The nodes of the command line; none without an option."""
    from rankd.config.simulated_site import read_nodes
    from rankd.core.simulate.site import pool

    if arguments.procs is not None:
        if not 1 <= arguments.procs <= MOST_PROCESSORS:
            raise Refused("usage", f"--procs: {arguments.procs} is not a number from 1 to {MOST_PROCESSORS}", "procs")
        return pool(arguments.procs)
    if arguments.nodes is None:
        return []
    try:
        text = Path(arguments.nodes).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("usage", f"{arguments.nodes} can't be read: {error}", "nodes") from None
    return read_nodes(text)


def _site(
    directory: Path | None, arguments: argparse.Namespace, routes: Mapping[str, str], nodes: Sequence[Node]
) -> Site:
    from rankd.config.configuration import load_configuration
    from rankd.config.simulated_site import Varied, simulated_site

    try:
        configuration: Configuration | None = None if directory is None else load_configuration(directory)
    except ConfigurationError as error:  # of several directories: say which
        raise ConfigurationError(
            [one._replace(file=str(directory / one.file) if directory and one.file else one.file)
             for one in error.problems]
        ) from None  # fmt: skip
    varied = Varied(
        policy=arguments.policy, backfill=arguments.backfill, backfill_order=arguments.backfill_order, routes=routes
    )
    site = simulated_site(configuration, varied, nodes)
    if configuration is not None:
        _warn_of_partitions(directory, configuration, site)
    return site


def _warn_of_partitions(directory: Path | None, configuration: Configuration, site: Site) -> None:
    """Say on standard error which partitions have no nodes here."""
    empty = [own.partition.name for own in site.partitions if not own.nodes]
    if site.partitions[0].is_pool and len(configuration.partitions) > 1:
        first, *others = [partition.name for partition in configuration.partitions]
        why = f"--procs is one pool, so only the partition {first} is simulated, with all jobs; left out"
        _warn(f"{directory}: {why}: {_some(others)}. --nodes FILE gives nodes to each partition")
    elif empty:
        more = "jobs for them are left out as too large"
        _warn(f'{directory}: partitions without nodes: {_some(empty)}; {more}. Add "partition" to nodes (--nodes FILE)')


def _warn_of_names(directory: Path | None, router: Router) -> None:
    """At a site of several partitions: say which names of the trace mean none of them, and no leaf queue."""
    if router.n_partitions > 1 and (names := router.unknown):
        place = f"{directory}: " if directory is not None else ""
        names_are = f"name {_some(names)} is" if len(names) == 1 else f"names {_some(names)} are"
        _warn(
            f"{place}the trace's {names_are} no partition and no leaf queue here; these jobs go to the"
            f" partition {router.default}. --map {names[0]}=PARTITION sends them elsewhere"
        )


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_MOST_NAMED])}{' …' if len(names) > _MOST_NAMED else ''}"


def _routes(given: Sequence[str] | None) -> dict[str, str]:
    """The routes of ``--map``: names of the trace in lower case, and where their jobs go."""
    routes: dict[str, str] = {}
    for text in given or ():
        name, _, to = (part.strip() for part in text.partition("="))
        if not name or not to:
            what = "write QUEUE=PARTITION or QUEUE=root.LEAF, such as q2=gpu"
            raise Refused("usage", f"--map: '{cut(text)}' is not a route; {what}", "map")
        if routes.setdefault(name.lower(), to) != to:
            raise Refused("usage", f"--map: '{cut(name)}' goes to two places; give it once", "map")
    return routes


def _selection(arguments: argparse.Namespace) -> Selection:
    from rankd.core.simulate.trace import Selection

    if arguments.jobs is not None and arguments.jobs < 1:
        raise Refused("usage", f"--jobs: {arguments.jobs} is not a number of at least 1", "jobs")
    begin_s, end_s = _time_s("from", arguments.begin_s), _time_s("until", arguments.end_s)
    if begin_s is not None and end_s is not None and begin_s >= end_s:
        raise Refused("usage", f"--from {arguments.begin_s} is not before --until {arguments.end_s}", "from")
    return Selection(
        column=arguments.column, most=arguments.jobs, begin_s=begin_s, end_s=end_s, limit=_limit(arguments.limit)
    )


def _time_s(option: str, text: str | None) -> float | None:
    """Seconds, or an instant in UTC as seconds since 1970."""
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            seconds = math.nan
        else:
            seconds = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    if not abs(seconds) <= MOST_SECONDS:
        what = "is neither a number of seconds nor a time such as 2026-05-01T12:00"
        raise Refused("usage", f"--{option}: '{cut(text)}' {what}", option)
    return seconds


def _limit(text: str) -> Any:  # noqa: ANN401 - a word or a number
    if text in ("requested", "exact"):
        return text
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= 1e6:
        raise Refused("usage", f"--limit: '{text}' is not requested, exact, or a factor of at most a million", "limit")
    return factor

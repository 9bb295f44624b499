"""``rankd simulate``: what rankd would have done with the jobs of a trace, by its own decisions on a virtual clock."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.cli.what_if.simulate_report import Simulated
    from rankd.core.simulate.predictor import Runtime
    from rankd.core.simulate.site import Site
    from rankd.core.simulate.trace import LeftOut, WorkJob


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Live through a trace of jobs on a virtual clock, by the daemon's own decisions, and print statistics."
    parser = add_command(subparsers, "simulate", run, text)
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help="a trace in the Standard Workload Format (.swf, .swf.gz), or what `sacct -P` or `rankd acct -P` printed",
    )
    parser.add_argument(
        "--last", metavar="PERIOD", help="in place of a trace: the site's own ended jobs of the last 30d, 12h or 2w"
    )
    parser.add_argument(
        "--config",
        type=Path,
        action="append",
        metavar="DIR",
        help="simulate with this configuration (default: rankd's defaults); give several to compare them",
    )
    _add_machine(parser)
    _add_selection(parser)
    _add_rules(parser)
    _add_output(parser)
    add_place(parser, looks=True)
    add_asker(parser)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    text = "the machine (default with --last: the site's nodes)"
    machine = parser.add_argument_group(text)
    group = machine.add_mutually_exclusive_group()
    group.add_argument("--procs", type=int, metavar="N", help="one pool of N cores, in one partition")
    group.add_argument(
        "--nodes",
        metavar="FILE",
        help="nodes with their resources and partitions, as JSON:"
        ' {"n[01-16]": {"vcore": 64}, "g[1-4]": {"vcore": 32, "gpu:a100": 4, "partition": "gpu"}}',
    )
    machine.add_argument(
        "--map",
        action="append",
        metavar="FROM=TO",
        help="jobs of the trace's queue or partition FROM go to the partition TO, or to the leaf queue TO (root.…);"
        " may be repeated (default: the partition and the leaf queue with the same names)",
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which jobs")
    group.add_argument("--jobs", type=int, metavar="N", help="only the first N records of the file (default: all)")
    group.add_argument(
        "--from",
        dest="begin_s",
        metavar="T",
        help="only jobs submitted at T or later: the trace's seconds, or UTC such as 2026-05-01 or 2026-05-01T12:00",
    )
    group.add_argument("--until", dest="end_s", metavar="T", help="only jobs submitted before T")
    group.add_argument(
        "--column",
        choices=("requested", "allocated", "max"),
        default="max",
        help="the processors of a job: requested, allocated, or the larger number (default: max)",
    )
    group.add_argument(
        "--limit",
        default="requested",
        metavar="LIMIT",
        help="time limits: requested, exact (the run time), or a factor of the requested ones (default: requested)",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("instead of the configuration")
    group.add_argument(
        "--runtime",
        choices=("requested", "exact", "mean2", "median20"),
        default="requested",
        help="the run time by which the scheduler plans: the limit (requested), the true one (exact), the mean of the"
        " user's last two (mean2), or the limit times the median share that the user's last 20 jobs took (median20);"
        " default: requested",
    )
    group.add_argument("--policy", choices=("multifactor", "class", "fcfs"), help="priority.policy")
    group.add_argument("--backfill", choices=("easy", "conservative", "none", "strict"), help="scheduling.backfill")
    group.add_argument("--backfill-order", choices=("rank", "shortest"), help="scheduling.backfill_order")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="for plugins that draw random numbers; rankd itself draws none"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", metavar="FILE", help="write the statistics as JSON; - is standard output")
    group.add_argument(
        "--plot", metavar="DIR", help="draw the results into this directory, as SVG and PNG; needs rankd[plot]"
    )
    group.add_argument("--speed", action="store_true", help="simulate once more, and print where the time goes")
    group.add_argument("--starts", metavar="FILE", help="write each job's submission, start and end as CSV")


def run(arguments: argparse.Namespace) -> int:
    """Simulate with each configuration, and print."""
    from rankd.cli.what_if.simulate_input import read_input
    from rankd.cli.what_if.simulate_plot import check_directory, draw, need_matplotlib
    from rankd.cli.what_if.simulate_report import check_writable, print_report, write_json, write_starts

    _seed(arguments.seed)
    if arguments.plot is not None:
        need_matplotlib()
        check_directory(arguments.plot)
    if arguments.starts is not None and len(arguments.config or ()) > 1:
        raise Refused("usage", "--starts writes one simulation; give one --config", "starts")
    for option in ("json", "starts"):
        check_writable(option, getattr(arguments, option))
    jobs, left_out, sites = read_input(arguments)
    done = [_simulate(directory, site, jobs, left_out, arguments.runtime) for directory, site in sites]
    if arguments.speed:
        _print_speed(sites[0][1], jobs)
    if arguments.starts is not None:
        write_starts(arguments.starts, done[0])
    if arguments.plot is not None:
        draw(arguments.plot, done)
    if arguments.json is not None:
        write_json(arguments.json, done)
    if arguments.json != "-":
        print_report(done)
    return 0


def _seed(seed: int) -> None:
    """Seed what plugins may draw from."""
    import random

    import numpy as np

    if not 0 <= seed < 2**32:
        raise Refused("usage", f"--seed: {seed} is not a number from 0 to 2^32 - 1", "seed")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator of plugins that have none of their own


def _simulate(
    directory: Path | None, site: Site, jobs: Sequence[WorkJob], left_out: LeftOut, runtime: Runtime
) -> Simulated:
    from rankd.cli.what_if.simulate_progress import live_through
    from rankd.cli.what_if.simulate_report import Simulated
    from rankd.core.simulate.simulator import Simulation
    from rankd.core.simulate.site import first_come
    from rankd.core.simulate.statistic import statistic

    name = "simulated" if directory is None else str(directory)
    begun = time.perf_counter()
    simulation = Simulation(site, jobs, runtime)
    live_through(simulation, name)
    elapsed_s = time.perf_counter() - begun
    fcfs = Simulation(first_come(site), jobs)
    live_through(fcfs, f"{name}, compared with first come, first served")
    machine = [(own.partition.name, own.processors) for own in site.partitions]
    found = statistic(simulation.work, simulation.starts_s, left_out, machine, site.priority.fairshare, fcfs.starts_s)
    return Simulated(None if directory is None else str(directory), simulation, found, elapsed_s, site.processors)


def _print_speed(site: Site, jobs: Sequence[WorkJob]) -> None:
    """Print it on standard error, so that JSON on standard output stays JSON."""
    from rankd.cli.what_if.simulate_progress import live_through, parts, profiled
    from rankd.core.simulate.simulator import Simulation

    simulation = Simulation(site, jobs)
    with profiled() as profile:
        live_through(simulation, "speed")
    found = ", ".join(f"{part} {100 * share:.0f} %" for part, share in parts(profile))
    print(f"where the time of a simulation goes: {found}", file=sys.stderr)

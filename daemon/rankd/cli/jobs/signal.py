"""``rankd signal``: sends a signal to the processes of running jobs (scancel -s), by id or by a filter."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rankd.cli.common.option import JOBS, add_asker, add_command, add_place, job_names
from rankd.cli.jobs.cancel_hold_release import selection
from rankd.cli.jobs.selection import act, add_report
from rankd.cli.look.queue import add_filters
from rankd.core.errors import Refused
from rankd.core.model.signal_name import NAMES
from rankd.core.near_name import cut
from rankd.wire.message import JobSelection, JobSignal

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = (
        "Send a signal to all processes of running jobs, also to those of their shells and steps. Each gets it once."
        " Options come first, or last."
    )
    parser = add_command(subparsers, "signal", run, text)
    parser.add_argument("job", type=_jobs, nargs="*", metavar="JOB", help=f"job ids: {JOBS}")
    parser.add_argument("signal", metavar="SIGNAL", help="a name or a number: USR1, SIGUSR1 or 10")
    add_filters(parser)
    add_report(parser)
    add_place(parser)
    add_asker(parser)


def _jobs(text: str) -> list[int | str]:
    """As :func:`.job_names`. Whoever writes the signal first, as for ``kill``, is told its place."""
    try:
        return job_names(text)
    except argparse.ArgumentTypeError:
        if text.upper().lstrip("-").removeprefix("SIG") not in NAMES:
            raise
        raise argparse.ArgumentTypeError(f"the signal comes last: `rankd signal JOB {cut(text.lstrip('-'))}`") from None


def run(arguments: argparse.Namespace) -> int:
    """Send the request, and print the jobs that could not be signalled."""
    try:
        chosen = selection(arguments)
    except Refused:
        if arguments.job or not arguments.signal[:1].isdigit():
            raise
        given = cut(arguments.signal)
        message = f"'{given}' was read as the signal, and no job is given; for job {given}, write"
        raise Refused("usage", f"{message} `rankd signal {given} USR1`, or another signal", "signal") from None
    return act(arguments, "job.signal", with_signal(chosen, arguments.signal))


def with_signal(chosen: JobSelection, signal: str) -> JobSignal:
    """The request to send these jobs a signal.

    Raises:
        Refused: ``bad_signal``.
    """
    from rankd.core.model.signal_name import parse_signal

    parse_signal(signal)
    return JobSignal(id=chosen.id, ids=chosen.ids, filter=chosen.filter, dry_run=chosen.dry_run, signal=signal)

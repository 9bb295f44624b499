"""``rankd cancel``, ``hold``, ``release``: for jobs by id or by a filter, with scancel's options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_jobs, add_place
from rankd.cli.jobs.selection import act, add_report
from rankd.cli.look.queue import add_filters, job_filter
from rankd.core.errors import Refused
from rankd.wire.message import JobCancel, JobFilter, JobSelection

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers

_TEXTS = {
    "cancel": "Cancel jobs: pending ones leave the queue, running ones are ended.",
    "hold": "Keep pending jobs from starting.",
    "release": "Let held jobs start. Their age counts from now.",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the three."""
    for verb, text in _TEXTS.items():
        parser = add_command(subparsers, verb, run, text)
        add_jobs(parser)
        if verb == "cancel":
            more = "also cancel the jobs that wait for these, directly or through others"
            parser.add_argument("--descendants", action="store_true", help=more)
            other = "send this signal to running jobs, and cancel nothing (as `rankd signal`)"
            parser.add_argument("-s", "--signal", metavar="SIGNAL", help=other)
        add_filters(parser)
        add_report(parser)
        add_place(parser)
        add_asker(parser)
        parser.set_defaults(verb=f"job.{verb}")


def selection(arguments: argparse.Namespace) -> JobSelection:
    """The selected jobs.

    Raises:
        Refused: ``usage``: there is neither an id nor a filter.
    """
    ids = [number for group in arguments.job for number in group] + (arguments.jobs or [])
    wanted = job_filter(argparse.Namespace(**{**vars(arguments), "jobs": None}))
    kind: Callable[..., JobSelection] = JobSelection
    if getattr(arguments, "descendants", False):
        kind = partial(JobCancel, descendants=True)
    if ids and wanted == _EVERY:
        return kind(ids=ids, dry_run=arguments.dry_run)
    if wanted == _EVERY and not arguments.states:
        raise Refused("usage", "which jobs? give numbers, or a filter such as --me or -n NAME", "job")
    chosen = job_filter(argparse.Namespace(**{**vars(arguments), "jobs": ids or None}))
    return kind(filter=chosen, dry_run=arguments.dry_run)


_EVERY = JobFilter(limit=2**31 - 1)


def run(arguments: argparse.Namespace) -> int:
    """Send the request, and print the jobs that could not be changed."""
    chosen = selection(arguments)
    if getattr(arguments, "signal", None) is None:
        return act(arguments, arguments.verb, chosen)
    from rankd.cli.jobs.signal import with_signal

    if arguments.descendants:
        raise Refused("usage", "--signal reaches running jobs only; leave --descendants out", "signal")
    return act(arguments, "job.signal", with_signal(chosen, arguments.signal))

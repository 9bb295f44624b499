"""Requests that change jobs, few or very many, and the report of the outcome.

Many jobs are changed in parts, so that each answer comes soon and fits into a message. Ctrl-C stops between parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.client.option_text import with_options
from rankd.client.selection import Outcome, change
from rankd.core.errors import RankdError, Refused
from rankd.core.model.signal_name import name_of_signal, parse_signal
from rankd.wire.message import JobSelection, JobSignal

if TYPE_CHECKING:
    import argparse


MOST_LISTED = 10
"""Jobs that the line of a dry run names."""
_DONE = {"job.cancel": "cancelled", "job.hold": "held", "job.release": "released", "job.signal": "signalled"}


def add_report(parser: argparse.ArgumentParser) -> None:
    """Options for the report. With ``-v`` (of ``add_place``), it also lists the changed jobs."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print which jobs would be changed and how many, and change nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def act(arguments: argparse.Namespace, verb: str, selection: JobSelection) -> int:
    """Send the requests, and print what was changed and what could not be. Returns the exit status.

    Raises:
        Unavailable, Refused: a request failed. Jobs after those that were printed were not changed.
    """
    outcome = Outcome()
    try:
        _ask(arguments, verb, selection, outcome)
    except RankdError as error:
        if outcome.done or outcome.failed:
            _report(arguments, _would_be(verb, selection), outcome)
            print_line(f"rankd: {outcome.n_jobs} jobs were changed, then:", error=True)
        if isinstance(error, Refused):
            raise Refused(error.code, with_options(error.message), error.field, error.status) from None
        raise
    if _fits_none(selection, outcome) and not arguments.dry_run:
        print_line(f"rankd: no job fits, so none was {_DONE.get(verb, 'changed')}", error=True)
    return _report(arguments, _would_be(verb, selection), outcome)


def _fits_none(selection: JobSelection, outcome: Outcome) -> bool:
    """Whether a filter that names jobs selects none: of names, nobody knows whether they exist."""
    return bool(selection.filter and selection.filter.names) and not (outcome.n_jobs or outcome.n_failed)


def _would_be(verb: str, selection: JobSelection) -> str:
    """What would become of the jobs: ``be cancelled``, ``get ALRM``."""
    if isinstance(selection, JobSignal):
        return f"get {name_of_signal(parse_signal(selection.signal))}"
    return f"be {_DONE.get(verb, 'changed')}"


def _report(arguments: argparse.Namespace, would: str, outcome: Outcome) -> int:
    """Print the outcome. Failures go to standard error, one line per job; with a failure, the status is 1."""
    with telling("" if arguments.dry_run else f"jobs that were changed: {outcome.n_jobs}"):
        _print(arguments, would, outcome)
    return 1 if outcome.n_failed else 0


def _print(arguments: argparse.Namespace, would: str, outcome: Outcome) -> None:
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json(outcome.reply())
    elif arguments.verbose:
        for name in outcome.names:
            print_line(name)
    elif arguments.dry_run:
        print_line(_would(would, outcome))
    if outcome.warning is not None:
        print_line(f"rankd: {outcome.warning}", error=True)
    for failed in outcome.failed:
        print_line(f"rankd: {named(failed.id, with_options(failed.message))}", error=True)
    if outcome.untold:
        print_line(f"rankd: and {outcome.untold} more", error=True)


def _would(what: str, outcome: Outcome) -> str:
    """``98 jobs would be cancelled: 12, 17_2, 17_[4-99]``."""
    but = f", {outcome.n_failed} could not" if outcome.n_failed else ""
    number = "1 job" if outcome.n_jobs == 1 else f"{outcome.n_jobs} jobs"
    shown = ", ".join(outcome.names[:MOST_LISTED])
    more = ", … (-v lists all)" if len(outcome.names) > MOST_LISTED else ""
    return f"{number} would {what}{but}{': ' if shown else ''}{shown}{more}"


def named(job: int | str, message: str) -> str:
    """A message about a job, with the name of the job if it lacks that."""
    return message if re.search(rf"(?<!\w){re.escape(str(job))}(?!\w)", message) else f"job {job}: {message}"


def _ask(arguments: argparse.Namespace, verb: str, selection: JobSelection, outcome: Outcome) -> None:
    from rankd.cli.common.channel import opened
    from rankd.client.blocking import carry_out
    from rankd.client.step import Effort

    with opened(arguments) as channel:
        carry_out(change(verb, selection, outcome, Effort(0.0)), channel)

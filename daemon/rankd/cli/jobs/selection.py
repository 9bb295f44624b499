"""Requests that change jobs, few or very many, and the report of the outcome.

Many jobs are changed in parts, so that each answer comes soon and fits into a message. Ctrl-C stops between parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.client.selection import Outcome, change
from rankd.core.errors import RankdError
from rankd.wire.message import JobSelection

if TYPE_CHECKING:
    import argparse


def add_report(parser: argparse.ArgumentParser) -> None:
    """Options for the report. With ``-v`` (of ``add_place``), it also lists the changed jobs."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print how many jobs would be changed, and change nothing"
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
    except RankdError:
        if outcome.done or outcome.failed:
            _report(arguments, outcome)
            print_line(f"rankd: {len(outcome.done)} jobs were changed, then:", error=True)
        raise
    return _report(arguments, outcome)


def _report(arguments: argparse.Namespace, outcome: Outcome) -> int:
    """Print the outcome. Failures go to standard error, one line per job; with a failure, the status is 1."""
    with telling("" if arguments.dry_run else f"jobs that were changed: {len(outcome.done)}"):
        _print(arguments, outcome)
    return 1 if outcome.n_failed else 0


def _print(arguments: argparse.Namespace, outcome: Outcome) -> None:
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json(outcome.reply())
    elif arguments.verbose:
        for job in outcome.done:
            print(job)
    elif arguments.dry_run:
        but = f", {outcome.n_failed} could not" if outcome.n_failed else ""
        print_line(f"{len(outcome.done)} jobs would be changed{but}")
    if outcome.warning is not None:
        print_line(f"rankd: {outcome.warning}", error=True)
    for failed in outcome.failed:
        is_named = failed.message.startswith("job ") or f"job {failed.id}" in failed.message
        message = failed.message if is_named else f"job {failed.id}: {failed.message}"
        print_line(f"rankd: {message}", error=True)
    if outcome.untold:
        print_line(f"rankd: and {outcome.untold} more", error=True)


def _ask(arguments: argparse.Namespace, verb: str, selection: JobSelection, outcome: Outcome) -> None:
    from rankd.cli.common.channel import opened
    from rankd.client.blocking import carry_out
    from rankd.client.step import Effort

    with opened(arguments) as channel:
        carry_out(change(verb, selection, outcome, Effort(0.0)), channel)

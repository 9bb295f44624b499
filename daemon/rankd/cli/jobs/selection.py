"""Requests that change jobs, few or very many, and the report of the outcome.

Many jobs are changed in parts, so that each answer comes soon and fits into a message. Ctrl-C stops between parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.core.errors import RankdError
from rankd.wire.job_selection import JobName
from rankd.wire.message import Failed, JobSelection, SelectionReply

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

AT_ONCE = 10_000
ANSWER_TIMEOUT_S = 30.0


def add_report(parser: argparse.ArgumentParser) -> None:
    """Options for the report. With ``-v`` (of ``add_place``), it also lists the changed jobs."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print how many jobs would be changed, and change nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


class Outcome:
    """The outcome so far. ``untold`` counts failures of which the answers have only the number."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.failed: list[Failed] = []
        self.untold = 0

    def take(self, reply: SelectionReply) -> None:
        """Add another answer."""
        self.done += reply.done
        self.failed += reply.failed
        self.untold += (reply.failed_count or len(reply.failed)) - len(reply.failed)

    @property
    def n_failed(self) -> int:
        """The number of jobs that could not be changed."""
        return len(self.failed) + self.untold


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

        counted = outcome.n_failed if outcome.untold else None
        print_json(SelectionReply(done=outcome.done, failed=outcome.failed, failed_count=counted))
    elif arguments.verbose:
        for job in outcome.done:
            print(job)
    elif arguments.dry_run:
        but = f", {outcome.n_failed} could not" if outcome.n_failed else ""
        print_line(f"{len(outcome.done)} jobs would be changed{but}")
    for failed in outcome.failed:
        named = f"job {failed.id}"
        message = failed.message if named in failed.message else f"{named}: {failed.message}"
        print_line(f"rankd: {message}", error=True)
    if outcome.untold:
        print_line(f"rankd: and {outcome.untold} more", error=True)


def _ask(arguments: argparse.Namespace, verb: str, selection: JobSelection, outcome: Outcome) -> None:
    from rankd.cli.common.channel import opened
    from rankd.wire.codec import encode

    with opened(arguments) as channel:
        for part in parts(selection):
            following: JobSelection | None = part
            while following is not None:
                reply = channel.request(verb, encode(following), SelectionReply, timeout_s=ANSWER_TIMEOUT_S)
                outcome.take(reply)
                following = behind(following, reply.last)


def parts(selection: JobSelection) -> Iterator[JobSelection]:
    """The same jobs in parts of at most :data:`AT_ONCE`. Of a filter, only the first part."""
    if selection.filter is None:
        for ids in _split(selection.ids or []):
            yield msgspec.structs.replace(selection, ids=ids)
    else:
        for some in [None] if selection.filter.ids is None else _split(selection.filter.ids):
            chosen = msgspec.structs.replace(selection.filter, ids=some, limit=AT_ONCE)
            yield msgspec.structs.replace(selection, filter=chosen)


def behind(selection: JobSelection, last: int | None) -> JobSelection | None:
    """The selection of a filter after the job ``last``. None if there are no more jobs."""
    if last is None or selection.filter is None:
        return None
    return msgspec.structs.replace(selection, filter=msgspec.structs.replace(selection.filter, after=last))


def _split(ids: Sequence[JobName]) -> list[list[JobName]]:
    return [list(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)]

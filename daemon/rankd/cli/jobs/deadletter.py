"""``rankd deadletter``: shows, retries and drops submissions that became no job, and notifications that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.cli.common.duration import shown_time
from rankd.cli.common.layout import Field, column_of, table_rows
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, ids, names
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.cli.common.table import print_json, print_table
from rankd.core.errors import RankdError, Refused
from rankd.core.model.array import shown_name
from rankd.wire.message import DeadLetterFilter, DeadLetterSelection, LettersReply

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.store.engine.reading import Row
    from rankd.wire.message import SettledLetter

MOST = 10_000
"""The most letters that are fetched, in pages."""
AT_ONCE = 500
"""The most letters in one request."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``deadletter`` and its verbs."""
    text = "Enqueued submissions that could not be accepted, and notifications that could not be sent."
    parser = add_command(subparsers, "deadletter", run_list, text)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    listed = add_command(
        verbs,
        "list",
        run_list,
        "List those that wait for a decision: your own, or with --admin all.",
        dash_h=False,
    )
    listed.add_argument("-u", "--user", type=names, metavar="USERS", help="only those of these users (needs --admin)")
    listed.add_argument("--all", action="store_true", help="include those that were retried or dropped")
    add_output(listed, "-h")
    show = add_command(verbs, "show", run_show, "Show one as it arrived, and what is wrong with it.")
    show.add_argument("id", type=int, metavar="ID", help="id of the dead letter")
    show.add_argument("--json", action="store_true", help="print JSON")
    retry = add_command(
        verbs,
        "retry",
        run_settle,
        "Submit again for the same user with the same key, so that no job is made twice; or send a notification again.",
    )
    drop = add_command(verbs, "drop", run_settle, "Remove dead letters from the list; their records stay.")
    for verb, name in ((retry, "retry"), (drop, "drop")):
        verb.add_argument("id", type=ids, nargs="+", metavar="ID", help="ids of dead letters: 3, or 3,4, or 3-7")
        verb.add_argument("--json", action="store_true", help="print the answer as JSON")
        verb.set_defaults(verb=f"deadletter.{name}")
    for any_verb in (listed, show, retry, drop):
        add_place(any_verb)
        add_asker(any_verb)


def _letters(arguments: argparse.Namespace, wanted: DeadLetterFilter) -> list[Row]:
    from rankd.cli.common.channel import opened
    from rankd.client.channel import pages

    with opened(arguments) as channel:
        rows, first = pages(channel, "deadletter.list", "letters", msgspec.to_builtins(wanted), MOST + 1)
    for loss in first.get("losses", ()):
        lost = f"{loss['letters']} older dead letters of {loss['user']} ({loss['bytes']} bytes)"
        print_line(f"rankd: {lost} were deleted, the last at {shown_time(loss['at'])}: too many waited", error=True)
    if len(rows) > MOST:
        print_line(f"rankd: only the oldest {MOST:,} dead letters are shown; retry or drop some", error=True)
    return rows[:MOST]


def run_list(arguments: argparse.Namespace) -> int:
    """Print the table."""
    rows = _letters(arguments, DeadLetterFilter(users=arguments.user, all=arguments.all))
    if arguments.json:
        print_json(rows)
        return 0
    fields = [
        column_of("id", "ID", numeric=True),
        Field("TIME", lambda row: row["at"], lambda row: shown_time(row["at"])),
        column_of("user", "USER"),
        column_of("state", "STATE"),
        Field("JOB", lambda row: row["job"] or 0, _job, numeric=True),
        column_of("target", "TARGET"),
        column_of("code", "CODE"),
        column_of("message", "MESSAGE"),
    ]
    print_table([field.column() for field in fields], table_rows(fields, rows), header=not arguments.noheader)
    return 0


def _job(row: Row) -> str:
    """The job or task that a notification is about; empty for a submission, which became no job."""
    if row["job"] is None:
        return ""
    return shown_name(row["job"], row.get("array_job"), row.get("array_task"), None, None)


def run_show(arguments: argparse.Namespace) -> int:
    """Print one."""
    rows = _letters(arguments, DeadLetterFilter(ids=[arguments.id]))
    if not rows:
        raise Refused("unknown_dead_letter", f"there is no dead letter {arguments.id} of yours", "id", status=404)
    if arguments.json:
        print_json(rows[0])
        return 0
    for name, value in rows[0].items():
        if value is not None:
            print_line(f"{name:<11}  {shown_time(value) if name.endswith('at') else value}")
    return 0


def run_settle(arguments: argparse.Namespace) -> int:
    """Send the requests in parts. Print the new jobs and the failures, even if a later part gets no answer."""
    from rankd.cli.common.channel import ask

    wanted = list(dict.fromkeys(number for group in arguments.id for number in group))
    reply = LettersReply(done=[], failed=[])
    try:
        for start in range(0, len(wanted), AT_ONCE):
            selection = DeadLetterSelection(ids=wanted[start : start + AT_ONCE])
            part = ask(arguments, arguments.verb, selection, LettersReply)
            reply.done.extend(part.done)
            reply.failed.extend(part.failed)
    except RankdError:
        if reply.done or reply.failed:
            _report(arguments, reply)
        raise
    return _report(arguments, reply)


def _report(arguments: argparse.Namespace, reply: LettersReply) -> int:
    """Print the outcome. Failures go to standard error; with a failure, the status is 1."""
    lines = [f"dead letter {letter.id}: {_made(arguments.verb, letter)}" for letter in reply.done]
    with telling(", ".join(lines)):
        if arguments.json:
            print_json(reply)
        else:
            for line in lines:
                print_line(line)
    for failed in reply.failed:
        print_line(f"rankd: dead letter {failed.id}: {failed.message}", error=True)
    return 1 if reply.failed else 0


def _made(verb: str, letter: SettledLetter) -> str:
    if letter.jobs:
        return f"submitted as job {', '.join(map(str, letter.jobs))}"
    return "is sent again" if verb == "deadletter.retry" else "dropped"

"""``rankd when JOB``: when a pending job will start, as far as that can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.duration import shown_duration, shown_time
from rankd.cli.common.option import add_asker, add_command, add_place, job_name
from rankd.cli.common.screen import print_line
from rankd.core.model.array import shown_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rankd.cli.common.option import Subparsers
    from rankd.wire.forecast_record import JobWhen

PENDING = "pending"


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Say when a pending job will start: the earliest and the latest time."
    parser = add_command(subparsers, "when", run, text)
    parser.add_argument("job", type=job_name, metavar="JOB", help="id of the job, or of a task: 17_3")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_place(parser)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the intake, which records what it answers, and print it."""
    from rankd.cli.common.channel import ask
    from rankd.wire.forecast_record import JobWhen
    from rankd.wire.page import JobShow

    found = ask(arguments, "job.when", JobShow(id=arguments.job), JobWhen)
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json(found)
    else:
        for line in told(found):
            print_line(line)
    return 0


def told(found: JobWhen) -> Iterator[str]:
    """The answer in words."""
    name = f"Job {shown_name(found.id, found.array_job, found.array_task, None, None)}"
    if found.state != PENDING:
        began = "" if found.started_at is None else f"; it started at {shown_time(found.started_at)}"
        yield f"{name} is {found.state}{began}."
        return
    yield from _range(name, found)
    if found.rank is not None:
        yield f"Its rank is {found.rank} of {found.of}."
    if found.limited_by:
        fact = f": {found.limited_by_fact}" if found.limited_by_fact else ""
        yield f"Now it waits because of '{found.limited_by}'{fact}."


def _range(name: str, found: JobWhen) -> Iterator[str]:
    if found.made_at is None:
        yield f"{name} has no range yet: no forecast was made. Ask again in a minute; see `rankd diag`."
        return
    age = f"The forecast is {shown_duration(found.age_s)} old; {found.assumes}."
    if found.early is None:
        fact = f": {found.unknown_fact}" if found.unknown_fact else ""
        why = f"{found.unknown}{fact}" if found.unknown else "it came after the last forecast; ask again in a moment"
        yield f"{name}: no start can be told: {why}."
    elif found.late is None:
        why = f" ({found.unknown}: {found.unknown_fact})" if found.unknown else ""
        yield f"{name} starts at {shown_time(found.early)} at the earliest. No latest start can be told{why}."
    elif found.late - found.early < 1:
        yield f"{name} starts by {shown_time(found.late)} at the latest. How much earlier can't be told yet."
    else:
        yield f"{name} starts between {shown_time(found.early)} and {shown_time(found.late)}."
    yield age

"""``rankd acct``: what jobs used, also after their end, with sacct's options and fields."""

from __future__ import annotations

import re
import time
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rankd.cli.common.duration import shown_time
from rankd.cli.common.freshness import Known
from rankd.cli.common.layout import Field
from rankd.cli.common.limit import EVERYTHING
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, job_names, names
from rankd.cli.common.record_source import open_source
from rankd.cli.common.screen import print_line
from rankd.cli.common.table import Column, print_json, print_separated, print_table
from rankd.cli.look.accounting_field import by_task, fields, known_end
from rankd.cli.look.counted_row import accounted_once
from rankd.cli.look.missing_job import has_nothing, say_if_unnamed
from rankd.cli.look.queue import add_filters, add_limit, job_filter
from rankd.cli.look.usage_period import LENGTHS, periods
from rankd.cli.look.usage_summary import KEYS, Uses, summed, summed_per
from rankd.cli.look.usage_summary import columns as of_summary
from rankd.client.instant import parse_time
from rankd.core.errors import Refused
from rankd.wire.message import AccountingFilter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.cli.common.record_source import Source
    from rankd.store.engine.reading import Row

USUAL = "JobID,JobName,User,Account,AllocCPUS,State,ExitCode,Elapsed,TotalCPU,MaxRSS"
LONG = (
    "JobID,JobName,User,Account,Queue,QOS,AllocCPUS,GPUs,ReqMem,State,ExitCode,Submit,Start,End,Elapsed,Timelimit"
    ",Waited,TotalCPU,CPUEff,MaxRSS,MemEff,GPUUtil,NNodes,NodeList"
)
"""The fields of ``-l``."""
_SUMMED = {"core_s": "cputime", "gpu_s": "gputime", "memory_byte_s": "memtime"}
ALL = "all"
"""In place of fields: every one of them."""
_WIDTH = re.compile(r"(?P<left>-?)(?P<columns>[1-9][0-9]{0,3})")


def add_parser(subparsers: Subparsers) -> None:
    """Add ``acct``."""
    text = (
        "What jobs used that were in the system since midnight, or in a given time; of named jobs at any time."
        " An array that you name has a line with the sums of its tasks among the lines, and the highest of their exit"
        " codes. Other lists have its tasks only, so that sums of the lines count everything once."
    )
    parser = add_command(subparsers, "acct", run, text)
    parser.add_argument(
        "job", type=job_names, nargs="*", metavar="JOB", help="job ids, as for -j: 17, 17-20; tasks: 17_3, 17_[1-5,9]"
    )
    add_filters(parser)
    parser.add_argument("-s", dest="states", type=names, metavar="STATES", help="the same as -t, as in sacct")
    _add_times(parser)
    add_limit(parser, ", but all with --summary")
    parser.add_argument(
        "-X", "--allocations", action="store_true", help="one line per job, without steps, as without --steps"
    )
    parser.add_argument(
        "--steps",
        action="store_true",
        help="below each job, a line for each of the newest 20 steps and shells of its present or last run: 17.0;"
        " they ran on the job's cores and in its time, so sums count the jobs only",
    )
    _add_form(parser)
    parser.add_argument("-e", "--helpformat", action="store_true", help="list all fields and exit")
    add_output(parser, "-H")
    add_place(parser, looks=True)
    add_asker(parser)


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-S",
        "--starttime",
        "--since",
        metavar="TIME",
        help="only jobs that had not ended before this time (default: midnight today)",
    )
    parser.add_argument(
        "-E", "--endtime", "--until", metavar="TIME", help="only jobs submitted up to this time (default: now)"
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-P", "--parsable2", action="store_true", help="separate fields with |")
    form.add_argument("--csv", action="store_true", help="print CSV (RFC 4180)")
    shown = f"fields, such as {USUAL}; ALL: every field; JobName%%30: a width of 30, aligned to the right (%%-30: left)"
    fields_ = parser.add_mutually_exclusive_group()
    fields_.add_argument("-o", "--format", metavar="FIELDS", help=shown)
    fields_.add_argument(
        "-l", "--long", dest="format", action="store_const", const=LONG, help="more fields, with times and efficiency"
    )
    parser.add_argument(
        "--summary",
        choices=KEYS,
        help="what these jobs used together, and what they waited for, per user, account or queue, in hours",
    )
    parser.add_argument(
        "--per",
        choices=LENGTHS,
        help="with --summary: a line for each of them, of local time, in which there was something to count",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the rows."""
    now = time.time()
    named = [name for group in arguments.job for name in group]
    arguments.jobs = [*named, *(arguments.jobs or ())] or None
    known = fields(Known({}, {}, now))
    if arguments.per and not arguments.summary:
        raise Refused("usage", "--per needs --summary user, account or queue", "per")
    if arguments.steps and arguments.summary:
        raise Refused("usage", "--steps lists lines of jobs; leave out --summary", "steps")
    if arguments.helpformat:
        print(" ".join(field.header for field in known.values()))
        return 0
    source = open_source(arguments)
    use = fields(source.known)
    shown = {field.header.lower(): field for field in _of_summary(arguments)} if arguments.summary else use
    spec = arguments.format or (ALL if arguments.summary else USUAL)
    chosen = _chosen(spec, shown)
    columns = _columns(spec, chosen)
    wanted = _wanted(arguments, now)
    rows = _summary(source, arguments, wanted) if arguments.summary else _listed(source, arguments, wanted)
    if rows is None:
        return 1
    if arguments.json:
        print_json(rows)
        return 0
    cells = [[field.shown(row) for field in chosen] for row in rows]
    if arguments.csv or arguments.parsable2:
        header = None if arguments.noheader else [field.header for field in chosen]
        texts = [place for place, field in enumerate(chosen) if not field.numeric]
        print_separated(header, cells, csv_texts=texts if arguments.csv else None)
    else:
        print_table(columns, cells, header=not arguments.noheader)
    return 0


def _listed(source: Source, arguments: argparse.Namespace, wanted: AccountingFilter) -> list[Row] | None:
    """The rows of jobs; None if none of the named jobs exists."""
    rows = source.accounting(wanted)
    say_if_unnamed(wanted, rows)
    if has_nothing(source, wanted, rows):
        return None
    rows.sort(key=by_task)
    shown = rows if arguments.json else accounted_once(rows, wanted.ids or ())
    if not arguments.steps or arguments.allocations:
        return shown
    from rankd.cli.look.step_row import with_steps

    shown, said = with_steps(source, shown)
    for text in said:
        print_line(f"rankd: {text}", error=True)
    return shown


def _of_summary(arguments: argparse.Namespace) -> list[Field]:
    return of_summary(arguments.summary, per=bool(arguments.per))


def _summary(source: Source, arguments: argparse.Namespace, wanted: AccountingFilter) -> list[Row] | None:
    """The sums; None if none of the named jobs exists. Without a limit, all jobs count, however many there are."""
    all_jobs = source.accounting_pages(replace(wanted, after=0))
    parts = all_jobs if wanted.limit == EVERYTHING else iter([source.accounting(wanted)])
    rows: Iterator[Row] = chain.from_iterable(accounted_once(part, ()) for part in parts)
    if wanted.ids is not None:
        rows = iter(listed := list(rows))
        if has_nothing(source, wanted, listed):
            return None
    found = _sums(rows, source.known, arguments, wanted)
    say_if_unnamed(wanted, found)
    return found


def _sums(rows: Iterator[Row], known: Known, arguments: argparse.Namespace, wanted: AccountingFilter) -> list[Row]:
    use = fields(known)
    uses = Uses({name: use[field].value for name, field in _SUMMED.items()}, partial(known_end, known=known))
    if not arguments.per:
        whole = summed(rows, arguments.summary, uses, wanted.since, wanted.until)
        return [{name: value for name, value in row.items() if name != "period"} for row in whole]
    since, now = wanted.since, time.time()
    if since is None:
        rows = iter(listed := list(rows))
        since = min((row["submitted_at"] for row in listed), default=now)
    until = max(since, now if wanted.until is None else wanted.until)
    return summed_per(rows, arguments.summary, uses, periods(since, until, arguments.per))


def _chosen(spec: str, known: dict[str, Field]) -> Sequence[Field]:
    """Fields by name."""
    if spec.strip().lower() == ALL:
        return list(known.values())
    names = [name for name, _ in _parts(spec)]
    if unknown := [name for name in names if name.lower() not in known]:
        shown = " ".join(field.header for field in known.values())
        raise Refused("usage", f"unknown field '{unknown[0]}'; known: {shown}", "format")
    return [known[name.lower()] for name in names]


def _columns(spec: str, chosen: Sequence[Field]) -> list[Column]:
    """The columns of a table, with the widths that ``spec`` names, as in sacct: right-aligned, left-aligned with ``-``.

    Raises:
        Refused: ``usage``: a width that is none.
    """
    columns = [field.column() for field in chosen]
    for place, (name, width) in enumerate(_parts(spec) if len(chosen) == len(_parts(spec)) else ()):
        if not width:
            continue
        given = _WIDTH.fullmatch(width)
        if given is None:
            raise Refused("usage", f"'{name}%{width}' has no valid width; write {name}%30, or {name}%-30", "format")
        columns[place] = Column(columns[place].header, not given["left"], int(given["columns"]))
    return columns


def _parts(spec: str) -> list[tuple[str, str]]:
    """The names of the fields, and what follows them after ``%``."""
    found = [part.strip().partition("%") for part in spec.split(",") if part.strip()]
    return [(name, width) for name, _, width in found]


def _wanted(arguments: argparse.Namespace, now: float) -> AccountingFilter:
    """The filter: named jobs at any time, and others since midnight unless a time is given."""
    given = job_filter(arguments)
    start = arguments.starttime or (None if arguments.jobs else "today")
    since = None if start is None else parse_time(start, now, "past")
    return AccountingFilter(
        **{name: getattr(given, name) for name in given.__struct_fields__},
        since=since,
        until=None if arguments.endtime is None else _end(arguments.endtime, since, now),
    )


def _end(text: str, since: float | None, now: float) -> float:
    """``-S 08:00 -E 16:30``: a time without a day is the last such time, or the first one after the start.

    Raises:
        Refused: ``usage``: the end is before the start in both cases.
    """
    until = parse_time(text, now, "past")
    if since is not None and until < since:
        until = parse_time(text, since, "future")
        if until < since:
            raise Refused("usage", f"the end {shown_time(until)} is before the start {shown_time(since)}", "endtime")
    return until

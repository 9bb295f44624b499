"""``rankd acct``: what jobs used, also after their end, with sacct's options and fields."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING

from rankd.cli.common.amount import gpus_of, shown_tres, times
from rankd.cli.common.duration import shown_duration, shown_time
from rankd.cli.common.freshness import Known
from rankd.cli.common.layout import Field, column_of
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, job_names, names
from rankd.cli.common.record_source import open_source
from rankd.cli.common.table import Column, print_json, print_separated, print_table
from rankd.cli.look.counted_row import accounted_once, is_rest
from rankd.cli.look.efficiency import efficiency_fields
from rankd.cli.look.missing_job import has_nothing, say_if_unnamed
from rankd.cli.look.queue import add_filters, add_limit, job_filter, shown_nodes
from rankd.cli.look.usage_period import LENGTHS, periods
from rankd.cli.look.usage_summary import KEYS, Uses, summed, summed_per
from rankd.cli.look.usage_summary import columns as of_summary
from rankd.client.instant import parse_time
from rankd.core.errors import Refused
from rankd.core.model.amount_text import shown_bytes
from rankd.core.model.array import shown_list, shown_name
from rankd.core.model.index_set import each, read
from rankd.core.model.nodelist import fold
from rankd.wire.message import AccountingFilter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from rankd.cli.common.option import Subparsers
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
_WORDS = {"node_lost": "NODE_FAIL"}
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
    add_limit(parser)
    parser.add_argument(
        "-X", "--allocations", action="store_true", help="accepted for Slurm's sake: there is always one line per job"
    )
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
    parser.add_argument("-e", "--helpformat", action="store_true", help="list all fields and exit")
    add_output(parser, "-H")
    add_place(parser, looks=True)
    add_asker(parser)


def fields(known_until: Known) -> dict[str, Field]:
    """The columns, by sacct's names in lower case."""
    known = [*_of_the_job(), *_of_its_nodes(), *_of_its_times(known_until), *_of_its_use(known_until)]
    return {field.header.lower(): field for field in known}


def _of_the_job() -> list[Field]:
    return [
        Field("JobID", _of("id"), _name, numeric=True),
        column_of("id", "JobIDRaw", numeric=True),
        column_of("name", "JobName"),
        column_of("user", "User"),
        column_of("account", "Account"),
        column_of("partition", "Partition"),
        column_of("queue", "Queue"),
        column_of("qos", "QOS"),
        Field("State", _state),
        Field("Reason", _reason),
        Field("ExitCode", lambda row: f"{row['exit_status'] or 0}:{row['signal'] or 0}"),
    ]


def _of_its_nodes() -> list[Field]:
    return [
        Field("NNodes", _node_count, numeric=True),
        column_of("nodes", "ReqNodes", numeric=True),
        Field("NodeList", lambda row: fold(shown_nodes(row)) or "None assigned"),
        Field("AllocCPUS", _cores, lambda row: f"{_cores(row):g}", numeric=True),
        Field("NCPUS", _cores, lambda row: f"{_cores(row):g}", numeric=True),
        Field("ReqCPUS", lambda row: row["cores"], lambda row: f"{row['cores']:g}", numeric=True),
        Field("GPUs", _gpus, lambda row: f"{_gpus(row):g}" if _gpus(row) else "", numeric=True),
        Field("AllocTRES", _alloc_tres),
        Field("ReqTRES", _req_tres),
        Field("ReqMem", _req_mem, lambda row: shown_bytes(_req_mem(row)), numeric=True),
    ]


def _of_its_times(known_until: Known) -> list[Field]:
    elapsed = partial(_elapsed_s, known_until)
    return [
        _instant("Submit", "submitted_at"),
        _instant("Eligible", "eligible_at"),
        Field("Start", _started_at, lambda row: _time(_started_at(row))),
        _instant("End", "ended_at"),
        Field("Elapsed", elapsed, lambda row: shown_duration(elapsed(row)), numeric=True),
        Field("ElapsedRaw", elapsed, numeric=True),
        Field("Timelimit", _of("time_limit_s"), lambda row: shown_duration(row["time_limit_s"]), numeric=True),
    ]


def _of_its_use(known_until: Known) -> list[Field]:
    def core_s(row: Row) -> float:
        own = row.get("tasks")
        return sum(map(core_s, own)) if own else _elapsed_s(known_until, row) * _cores(row)

    def memory_byte_s(row: Row) -> float:
        return _elapsed_s(known_until, row) * float(_allocated(row).get("memory") or 0)

    def gpu_s(row: Row) -> float:
        own = row.get("tasks")
        return sum(map(gpu_s, own)) if own else _elapsed_s(known_until, row) * _gpus(row)

    return [
        Field("CPUTime", core_s, lambda row: shown_duration(core_s(row)), numeric=True),
        Field("GPUTime", gpu_s, lambda row: shown_duration(gpu_s(row)), numeric=True),
        Field("MemTime", memory_byte_s, lambda row: f"{memory_byte_s(row) / 2**30:.0f}", numeric=True),
        *efficiency_fields(core_s, partial(_elapsed_s, known_until)),
        Field("TotalCPU", _of("cpu_s"), lambda row: _measured(row["cpu_s"], "{:.3f}"), numeric=True),
        Field(
            "MaxRSS",
            _of("max_rss_bytes"),
            lambda row: _measured(row["max_rss_bytes"] and row["max_rss_bytes"] / 1024, "{:.0f}K"),
            numeric=True,
        ),
        Field("GPUUtil", _of("gpu_utilisation"), _gpu_utilisation, numeric=True),
        Field("MaxGPUMem", _of("gpu_memory"), _gpu_memory, numeric=True),
        Field("Measured", _of("measured"), lambda row: row.get("measured") or ""),
        column_of("requeues", "Restarts", numeric=True),
        column_of("comment", "Comment"),
        column_of("cwd", "WorkDir"),
    ]


def _req_mem(row: Row) -> float:
    return float(row["resources"].get("memory") or 0)


def _elapsed_s(known_until: Known, row: Row) -> int:
    return int(_known_end(row, known_until) - row["started_at"]) if _started_at(row) else 0


def _started_at(row: Row) -> float | None:
    """When it started. The pending tasks of an array have not: the start in their row is that of its first task."""
    started: float | None = None if is_rest(row) else row["started_at"]
    return started


def _of(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name)


def _state(row: Row) -> str:
    """The state in sacct's words: ``CANCELLED by alice``, ``OUT_OF_MEMORY``."""
    by = row.get("cancelled_by")
    word = _WORDS.get(row["state"], row["state"].upper())
    return f"{word} by {by}" if by else word


def _reason(row: Row) -> str:
    """Why a job waits, or why it ended: the cause and the message that are recorded."""
    if row["state"] == "pending":
        return row.get("reason") or ""
    return ": ".join(text for text in (row.get("cause"), row.get("message")) if text)


def _by_task(row: Row) -> tuple[int, int]:
    """The order of rows: by job, and tasks behind their array by their index. Their records have later ids."""
    if row.get("array_job") is None:
        return int(row["id"]), -1
    listed = read(row.get("array")) if row["array_task"] is None else ()
    return int(row["array_job"]), next(each(listed), -1) if listed else int(row["array_task"] or 0)


def _name(row: Row) -> str:
    """``17``, ``17_3``, or ``17_[4-99%4]`` for tasks without records."""
    listed = shown_list(row.get("array"))
    if row.get("array_job") is not None and row["array_task"] is None:
        return shown_name(row["array_job"], None, None, listed, None)
    return shown_name(row["id"], row.get("array_job"), row.get("array_task"), listed, row.get("array_limit"))


def _instant(header: str, name: str) -> Field:
    return Field(header, _of(name), lambda row: _time(row[name]))


def _time(at: float | None) -> str:
    return "Unknown" if at is None else shown_time(at)


def _measured(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _gpu_utilisation(row: Row) -> str:
    """The mean of all GPUs since the start, in percent."""
    value = row.get("gpu_utilisation")
    return _measured(value and 100 * value, "{:.0f}%")


def _gpu_memory(row: Row) -> str:
    value = row.get("gpu_memory")
    return _measured(value and value / 2**20, "{:.0f}M")


def _node_count(row: Row) -> int:
    return len(shown_nodes(row)) or int(row["nodes"])


def _cores(row: Row) -> float:
    """The cores on the nodes of the job. They can be fewer than requested with ``-N N-M``. 0 before its start."""
    if row.get("allocated") and shown_nodes(row):
        return float(row["allocated"].get("vcore") or 0)
    return len(shown_nodes(row)) * float(row["cores"]) / int(row["nodes"])


def _gpus(row: Row) -> float:
    """The GPUs of the job on all its nodes. 0 before its start."""
    return gpus_of(_allocated(row))


def _allocated(row: Row) -> Row:
    """What the job has on all its nodes, with the models that it was given."""
    if row.get("allocated"):  # of an exclusive job, with its devices
        return dict(row["allocated"]) if shown_nodes(row) else {}
    amounts = times(row["resources"] or {}, len(shown_nodes(row)))
    given = {f"gpu:{model}": number for model, number in (row.get("gpus") or {}).items()}
    if not given:
        return amounts
    others = {kind: amount for kind, amount in amounts.items() if kind != "gpu" and not kind.startswith("gpu:")}
    return others | {"gpu": sum(given.values())} | given


def _alloc_tres(row: Row) -> str:
    return shown_tres(_cores(row), len(shown_nodes(row)), _allocated(row)) if shown_nodes(row) else ""


def _req_tres(row: Row) -> str:
    return shown_tres(row["cores"], int(row["nodes"]), times(row["resources"] or {}, int(row["nodes"])))


def _known_end(row: Row, known: Known) -> float:
    until: float = row["ended_at"] or known.of(shown_nodes(row))
    started: float = row["started_at"]
    return max(until, started)


def run(arguments: argparse.Namespace) -> int:
    """Print the rows."""
    now = time.time()
    named = [name for group in arguments.job for name in group]
    arguments.jobs = [*named, *(arguments.jobs or ())] or None
    known = fields(Known({}, {}, now))
    if arguments.per and not arguments.summary:
        raise Refused("usage", "--per needs --summary user, account or queue", "per")
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
    rows = source.accounting(wanted)
    say_if_unnamed(wanted, rows)
    if has_nothing(source, wanted, rows):
        return 1
    rows.sort(key=_by_task)
    if arguments.summary or not arguments.json:
        rows = accounted_once(rows, wanted.ids or ())
    if arguments.summary:
        known_end = partial(_known_end, known=source.known)
        uses = Uses({name: use[field].value for name, field in _SUMMED.items()}, known_end)
        rows = _summary(rows, arguments, uses, wanted)
    if arguments.json:
        print_json(rows)
    else:
        cells = [[field.shown(row) for field in chosen] for row in rows]
        if arguments.csv or arguments.parsable2:
            header = None if arguments.noheader else [field.header for field in chosen]
            texts = [place for place, field in enumerate(chosen) if not field.numeric]
            print_separated(header, cells, csv_texts=texts if arguments.csv else None)
        else:
            print_table(columns, cells, header=not arguments.noheader)
    return 0


def _of_summary(arguments: argparse.Namespace) -> list[Field]:
    return of_summary(arguments.summary, per=bool(arguments.per))


def _summary(rows: Sequence[Row], arguments: argparse.Namespace, uses: Uses, wanted: AccountingFilter) -> list[Row]:
    if not arguments.per:
        whole = summed(rows, arguments.summary, uses, wanted.since, wanted.until)
        return [{name: value for name, value in row.items() if name != "period"} for row in whole]
    now = time.time()
    since = min((row["submitted_at"] for row in rows), default=now) if wanted.since is None else wanted.since
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

"""``rankd queue``: jobs that wait and run, with squeue's options. ``rankd list``: jobs in any state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rankd.cli.common.amount import gpus_of, shown_gpus, shown_gres, times
from rankd.cli.common.duration import shown_duration, shown_time
from rankd.cli.common.freshness import Known, say
from rankd.cli.common.layout import Field, column_of, formatted, ordered, table_rows
from rankd.cli.common.limit import EVERYTHING
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, interval, job_names, limit, names
from rankd.cli.common.record_source import Source, open_source
from rankd.cli.common.screen import print_line
from rankd.cli.common.state_name import states_of
from rankd.cli.common.table import print_json, print_table
from rankd.cli.look.counted_row import counted_once
from rankd.cli.look.missing_job import has_nothing
from rankd.core.model.amount_text import shown_bytes
from rankd.core.model.array import shown_list, shown_name
from rankd.core.model.index_set import each, read, take, written
from rankd.core.model.nodelist import fold, unfold
from rankd.store.engine.reading import Row
from rankd.store.look.job_filter import ACTIVE
from rankd.wire.job_selection import JobFilter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from rankd.cli.common.option import Subparsers

SHORT_STATES = {
    "pending": "PD",
    "allocated": "CF",
    "running": "R",
    "completed": "CD",
    "failed": "F",
    "timeout": "TO",
    "cancelled": "CA",
    "node_lost": "NF",
    "out_of_memory": "OOM",
}
RUNNING = ("allocated", "running")
MOST_TASKS = 10_000


def add_parser(subparsers: Subparsers) -> None:
    """Add ``queue`` and ``list``."""
    queue = add_command(subparsers, "queue", run_queue, "Jobs that wait or run, in squeue's order.", dash_h=False)
    add_filters(queue)
    queue.add_argument("-w", "--nodelist", metavar="NODES", help="only jobs on these nodes, such as n[01-08]")
    queue.add_argument("-o", "--format", metavar="SPEC", help="columns, such as '%%.10i %%u %%T'; see the reference")
    queue.add_argument(
        "-S", "--sort", metavar="KEYS", help="sort by these fields, such as 'u,-Q'; - before a field for descending"
    )
    queue.add_argument("-l", "--long", action="store_true", help="show states as words, and time limits")
    queue.add_argument(
        "-r", "--array", action="store_true", help="one line per pending task of an array, up to 10,000 of each"
    )
    queue.add_argument(
        "--start",
        action="store_true",
        help="show when pending jobs start: at the latest, with a reservation; at the earliest, with a begin time",
    )
    add_limit(queue)
    queue.add_argument("-i", "--iterate", type=interval, metavar="SECONDS", help="print again every SECONDS seconds")
    add_output(queue, "-h")
    add_place(queue, looks=True)
    add_asker(queue)
    listing = add_command(subparsers, "list", run_list, "Jobs in any state, by id.", dash_h=False)
    add_filters(listing)
    listing.add_argument("-o", "--format", metavar="SPEC", help="columns, in the same format as `rankd queue`")
    add_limit(listing)
    add_output(listing, "-h")
    add_place(listing, looks=True)
    add_asker(listing)


def add_limit(parser: argparse.ArgumentParser, besides: str = "") -> None:
    """The option for the largest number of jobs."""
    text = f"at most N jobs, the newest (default: all; over the bus 10,000{besides})"
    parser.add_argument("--limit", type=limit, default=EVERYTHING, metavar="N", help=text)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Options that select jobs. They are the same for all commands."""
    group = parser.add_argument_group("which jobs (lists are separated by commas)")
    group.add_argument(
        "-j",
        "--jobs",
        type=job_names,
        metavar="IDS",
        help="only these jobs: 17 or 17-20; tasks: 17_[1-5,9]",
    )
    group.add_argument("-u", "--user", type=names, metavar="USERS", help="only jobs of these users")
    group.add_argument("--me", action="store_true", help="only my own jobs")
    group.add_argument("-A", "--account", type=names, metavar="ACCOUNTS", help="only jobs of these accounts")
    group.add_argument("-q", "--queue", type=names, metavar="QUEUES", help="only jobs in these queues")
    group.add_argument("-p", "--partition", type=names, metavar="PARTITIONS", help="only jobs in these partitions")
    group.add_argument(
        "-t",
        "--states",
        "--state",
        type=names,
        metavar="STATES",
        help="only jobs in these states: PD, running, … or all",
    )
    group.add_argument("-n", "--name", type=names, metavar="NAMES", help="only jobs with these names")
    group.add_argument("--qos", type=names, metavar="QOS", help="only jobs with these QoS")


def job_filter(arguments: argparse.Namespace, states: tuple[str, ...] | None = None) -> JobFilter:
    """The filter of the options. ``states`` are the states if no option names one."""
    users = list(arguments.user or [])
    if arguments.me:
        from rankd.cli.common.session import asker

        users.append(asker(arguments).user)
    return JobFilter(
        ids=arguments.jobs,
        users=users or None,
        accounts=arguments.account,
        queues=arguments.queue,
        partitions=arguments.partition,
        states=parse_states(arguments.states or []) if arguments.states else list(states) if states else None,
        names=arguments.name,
        qos=arguments.qos,
        limit=getattr(arguments, "limit", EVERYTHING),
    )


def parse_states(words: list[str]) -> list[str] | None:
    """States by Slurm's letters or by name; None for ``all``. A state that only Slurm has is said to match no job.

    Raises:
        Refused: ``usage``: an unknown state.
    """
    states, never = states_of(words, SHORT_STATES)
    if never:
        print_line(f"rankd: no job of rankd is ever {' or '.join(never)}, so no job matches this", error=True)
    return states


def shown_nodes(row: Row) -> list[str]:
    """The nodes of a job, from a list or from a text such as ``n[1-3]``."""
    given = row.get("nodelist")
    return given if isinstance(given, list) else unfold(given) if given else []


class _Times(NamedTuple):
    """Run times of jobs. They count up to the last time for which the state is known."""

    known: Known

    def run(self, row: Row) -> float:
        if not row["started_at"] or row["state"] == "pending":  # of an array, it is the start of its first task
            return 0.0
        until: float = row["ended_at"] or self.known.of(shown_nodes(row))
        started: float = row["started_at"]
        return max(until - started, 0.0)

    def left(self, row: Row) -> float | None:
        return None if row["time_limit_s"] is None else max(row["time_limit_s"] - self.run(row), 0.0)


def _place(row: Row) -> str:
    return f"({_waiting_for(row)})" if row["state"] == "pending" else fold(shown_nodes(row))


def fields(known: Known) -> dict[str, Field]:
    """The columns by squeue's letters."""
    times = _Times(known)
    return {
        "i": Field("JOBID", _by("id"), _name, numeric=True),
        "A": column_of("id", "ID", numeric=True),
        "F": Field("ARRAY_JOB_ID", _by("id"), lambda row: str(row.get("array_job") or row["id"]), numeric=True),
        "w": column_of("queue", "QUEUE"),
        "P": column_of("partition", "PARTITION"),
        "j": column_of("name", "NAME"),
        "u": column_of("user", "USER"),
        "a": column_of("account", "ACCOUNT"),
        "t": Field("ST", lambda row: row["state"], lambda row: SHORT_STATES[row["state"]]),
        "T": Field("STATE", lambda row: row["state"], lambda row: row["state"].upper()),
        "M": Field("TIME", times.run, lambda row: shown_duration(times.run(row)), numeric=True),
        "l": Field("TIME_LIMIT", _by("time_limit_s"), lambda row: shown_duration(row["time_limit_s"]), numeric=True),
        "D": column_of("nodes", "NODES", numeric=True),
        "C": Field("CPUS", _cores, lambda row: f"{_cores(row):g}", numeric=True),
        "R": Field("NODELIST(REASON)", _place),
        "N": Field("NODELIST", lambda row: fold(shown_nodes(row))),
        "r": column_of("reason", "REASON"),
        "Q": column_of("priority", "PRIORITY", numeric=True),
        "p": column_of("rank", "RANK", numeric=True),
        "K": column_of("array_task", "ARRAY_TASK_ID", numeric=True, none="N/A"),
        "b": Field("TRES_PER_NODE", lambda row: shown_gres(row["resources"]) or "N/A"),
        "m": Field("MIN_MEMORY", lambda row: shown_bytes(row["resources"].get("memory") or 0), numeric=True),
        "L": Field("TIME_LEFT", times.left, lambda row: shown_duration(times.left(row)), numeric=True),
        "E": Field("DEPENDENCY", lambda row: ",".join(map(_dependency, row.get("depends_on") or ())) or "(null)"),
        "y": column_of("urgency", "URGENCY", numeric=True),
        "q": column_of("qos", "QOS"),
        "k": column_of("comment", "COMMENT"),
        "f": column_of("constraints", "FEATURES"),
        "V": _instant("submitted_at", "SUBMIT_TIME"),
        "S": Field("START_TIME", _start, lambda row: shown_time(_start(row))),
        "e": _instant("ended_at", "END_TIME"),
        "x": column_of("exit_status", "EXIT", numeric=True),
    }


def _cores(row: Row) -> float:
    """The cores that a job asks for; of an exclusive one that runs or has run, those of its nodes."""
    held = row.get("allocated") if row["state"] != "pending" else None
    return float((held or {}).get("vcore") or row["cores"])


def _dependency(one: Row) -> str:
    return f"{one['type']}:{one['job']}" if "job" in one else str(one["type"])


def _name(row: Row) -> str:
    """``17``; ``17_3`` for a task; ``17_[4-99%4]`` for the tasks of an array that have not started."""
    listed = shown_list(row.get("array"))
    if row.get("array_job") is not None and row.get("array_task") is None:  # tasks that were cancelled together
        return shown_name(row["array_job"], None, None, listed, None)
    return shown_name(row["id"], row.get("array_job"), row.get("array_task"), listed, row.get("array_limit"))


def _waiting_for(row: Row) -> str:
    """The scheduler's reason. Before there is one, the job's rank."""
    return row["reason"] or ("not ranked yet" if row["rank"] is None else f"rank {row['rank']}")


def _start(row: Row) -> float | None:
    """When the job started. For a waiting job with a reservation, the latest time at which it will start.

    For one that waits for its begin time, that time: it starts no earlier.
    """
    if row["state"] != "pending":
        return row.get("started_at")
    return row.get("begin_at") if row.get("reason") == "begin time" else row.get("expected_start_at")


def _by(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name)


def _instant(name: str, header: str) -> Field:
    return Field(header, _by(name), lambda row: shown_time(row.get(name)))


def _gpus(row: Row) -> str:
    """The GPUs of the job on all its nodes, with their models if it names any."""
    return shown_gpus(times(row["resources"] or {}, len(shown_nodes(row)) or int(row["nodes"])))


GPUS = Field("GPUS", _gpus, numeric=True)
"""A column of tables that list a job with GPUs."""


def run_queue(arguments: argparse.Namespace) -> int:
    """Print the queue once, or repeatedly with ``--iterate``."""
    while True:
        status = _print_queue(arguments, open_source(arguments))
        if arguments.iterate is None:
            return status
        time.sleep(arguments.iterate)
        if not arguments.json:
            print(f"\n{shown_time(time.time())}", flush=True)


def _print_queue(arguments: argparse.Namespace, source: Source) -> int:
    states = None if arguments.jobs else ("pending",) if arguments.start else ACTIVE
    wanted = job_filter(arguments, states)
    rows = source.jobs(wanted)
    if has_nothing(source, wanted, rows):
        return 1
    if arguments.nodelist:
        from rankd.cli.look.nodes import check_names

        check_names(arguments.nodelist, {node["name"] for node in source.nodes()})
        nodes = set(unfold(arguments.nodelist))
        rows = [row for row in rows if nodes & set(shown_nodes(row))]
    if not arguments.json:
        rows = counted_once(rows)
    if arguments.array:
        rows = [one for row in rows for one in _each_task(row)]
    rows.sort(key=_usual_order)
    default = "iwjutSDR" if arguments.start else "iwjuTMlDR" if arguments.long else "iwjutMDR"
    print_jobs(arguments, rows, default, source)
    return 0


def _each_task(row: Row) -> Iterator[Row]:
    """A row for each pending task of an array, and one for those behind the first :data:`MOST_TASKS`."""
    if not row.get("array"):
        yield row
        return
    first, rest = take(read(row["array"]), MOST_TASKS)
    for index in each(first):
        yield row | {"array": None, "array_job": row["id"], "array_task": index}
    if rest:
        yield row | {"array": written(rest)}


def _usual_order(row: Row) -> tuple[bool, float, int]:
    """Running jobs first, then ranked jobs by rank, then the others."""
    unranked = float("inf") if row["rank"] is None else row["rank"]
    return row["state"] == "pending", unranked if row["state"] == "pending" else 0, row["id"]


def run_list(arguments: argparse.Namespace) -> int:
    """Print jobs by id."""
    source = open_source(arguments)
    wanted = job_filter(arguments)
    rows = source.jobs(wanted)
    if has_nothing(source, wanted, rows):
        return 1
    print_jobs(arguments, rows, "iwjuTMDxR", source)
    return 0


def print_jobs(arguments: argparse.Namespace, rows: list[Row], default: str, source: Source) -> None:
    """Print rows as JSON, in a format, or as a table of the ``default`` letters, and messages about silent nodes."""
    heard = source.known
    say(heard.of_nodes(node for row in rows if row["state"] in RUNNING for node in shown_nodes(row)))
    known = fields(heard)
    if getattr(arguments, "sort", None):
        rows = ordered(arguments.sort, known, rows)
    if arguments.json:
        print_json(rows)
    elif arguments.format:
        print("\n".join(formatted(arguments.format, known, rows, header=not arguments.noheader)))
    else:
        used = [known[letter] for letter in default]
        if any(gpus_of(row["resources"] or {}) for row in rows):
            used.insert(-1, GPUS)
        print_table([field.column() for field in used], table_rows(used, rows), header=not arguments.noheader)

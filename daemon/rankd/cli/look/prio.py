"""``rankd prio``: the points of pending jobs by factor, with sprio's options. A row adds up to its priority."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rankd.cli.common.duration import shown_time
from rankd.cli.common.layout import Field, column_of, formatted, ordered, table_rows
from rankd.cli.common.limit import EVERYTHING
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, job_names, limit, names
from rankd.cli.common.record_source import open_source
from rankd.cli.common.table import print_json, print_table
from rankd.cli.look.missing_job import has_nothing
from rankd.wire.job_selection import JobFilter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rankd.cli.common.option import Subparsers
    from rankd.store.engine.reading import Row

LETTERS = {
    "age": "a",
    "fairshare": "f",
    "size": "j",
    "queue": "p",
    "qos": "q",
    "association": "b",
    "site": "s",
    "user": "x",
}
"""sprio's letters of factors: small for the raw value, capital for points. Slurm has no `x`."""

LEAST_DECIMALS = 2
MOST_DECIMALS = 12
LARGEST_PRIORITY = 2**31 - 1


def add_parser(subparsers: Subparsers) -> None:
    """Add ``prio``."""
    text = "Pending jobs by factor: points = weight x value, PRIORITY = CLASS + all points."
    parser = add_command(subparsers, "prio", run, text, dash_h=False)
    parser.add_argument(
        "-j",
        "--jobs",
        type=job_names,
        metavar="IDS",
        help="only these jobs: 17 or 17-20; tasks: 17_[1-5,9]",
    )
    parser.add_argument("-u", "--user", type=names, metavar="USERS", help="only jobs of these users")
    parser.add_argument("-A", "--account", type=names, metavar="ACCOUNTS", help="only jobs of these accounts")
    parser.add_argument("-q", "--queue", type=names, metavar="QUEUES", help="only jobs in these queues")
    parser.add_argument("-p", "--partition", type=names, metavar="PARTITIONS", help="only jobs in these partitions")
    parser.add_argument(
        "-l", "--long", action="store_true", help="also show rank, partition, override and reason for waiting"
    )
    parser.add_argument("-n", "--norm", action="store_true", help="show raw values of the factors in place of points")
    parser.add_argument("-w", "--weights", action="store_true", help="show the weights in place of jobs")
    parser.add_argument("-o", "--format", metavar="SPEC", help="columns, such as '%%i %%u %%Y %%A'; see the reference")
    parser.add_argument("-S", "--sort", metavar="KEYS", help="sort by these fields, such as 'u,-Y' (default: by rank)")
    parser.add_argument("--limit", type=limit, default=EVERYTHING, metavar="N", help="at most N jobs (default: all)")
    add_output(parser, "-h")
    add_place(parser, looks=True)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print breakdowns, or the weights."""
    source = open_source(arguments)
    if arguments.weights:
        _print_weights(arguments, source.weights())
        return 0
    wanted = JobFilter(
        ids=arguments.jobs,
        users=arguments.user,
        accounts=arguments.account,
        queues=arguments.queue,
        partitions=arguments.partition,
        limit=arguments.limit,
    )
    rows = source.priorities(wanted)
    if has_nothing(source, wanted, rows):
        return 1
    factors = [factor["name"] for factor in rows[0]["factors"]] if rows else list(source.weights())
    if not factors and not rows:
        print("rankd: no job is ranked yet: the prioritizer has made no pass", file=sys.stderr)
    _print_rows(arguments, rows, factors)
    return 0


def _print_rows(arguments: argparse.Namespace, rows: list[Row], factors: list[str]) -> None:
    fields = _fields(factors, decimals(rows), raw=arguments.norm)
    by_letter = _by_letter(fields, factors, decimals(rows))
    if arguments.sort:
        rows = ordered(arguments.sort, by_letter, rows)
    if arguments.json:
        print_json(rows)
    elif arguments.format:
        print("\n".join(formatted(arguments.format, by_letter, rows, header=not arguments.noheader)))
    else:
        used = list(fields.values()) + (list(_more().values()) if arguments.long else [])
        print_table([field.column() for field in used], table_rows(used, rows), header=not arguments.noheader)


def _print_weights(arguments: argparse.Namespace, weights: dict[str, float]) -> None:
    if arguments.json:
        print_json(weights)
        return
    fields = [
        Field("JOBID", lambda _: "Weights"),
        *(Field(name.upper(), _constant(f"{w:g}"), numeric=True) for name, w in weights.items()),
    ]
    print_table([field.column() for field in fields], table_rows(fields, [{}]), header=not arguments.noheader)


def _constant(text: str) -> Callable[[Row], str]:
    return lambda _: text


def decimals(rows: list[Row]) -> int:
    """The fewest decimals, from 2, with which every shown row still adds up to its priority."""
    needed = LEAST_DECIMALS
    for row in rows:
        if row["override"] is None:
            while needed < MOST_DECIMALS and not _adds_up(row, needed):
                needed += 1
    return needed


def _adds_up(row: Row, places: int) -> bool:
    shown = round(sum(round(factor["points"], places) for factor in row["factors"]), places)
    unclamped = row["class_value"] + int(shown)
    return bool(max(-LARGEST_PRIORITY - 1, min(LARGEST_PRIORITY, unclamped)) == row["priority"])


def _factor(place: int, part: str) -> Callable[[Row], Any]:
    return lambda row: row["factors"][place][part]


def _number(value: Callable[[Row], Any], places: int) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        number = value(row)
        return "-" if number is None else f"{number:.{places}f}"

    return text


def _factor_field(name: str, place: int, places: int, *, raw: bool) -> Field:
    value = _factor(place, "value" if raw else "points")
    return Field(name.upper(), value, _number(value, 7 if raw else places), numeric=True)


def _fields(factors: list[str], places: int, *, raw: bool) -> dict[str, Field]:
    """The usual columns by name, in order. No heading of a name repeats that of a factor: QUEUENAME, not QUEUE."""
    return {
        "id": column_of("id", "JOBID", numeric=True),
        "queue": column_of("queue", "QUEUENAME"),
        "user": column_of("user", "USERNAME"),
        "account": column_of("account", "ACCOUNT"),
        "priority": column_of("priority", "PRIORITY", numeric=True),
        **{f"factor {name}": _factor_field(name, place, places, raw=raw) for place, name in enumerate(factors)},
        "class": column_of("class_value", "CLASS", numeric=True),
        "qos": column_of("qos", "QOSNAME"),
    }


def _more() -> dict[str, Field]:
    """The columns that ``-l`` adds, by letter."""
    return {
        "k": column_of("rank", "RANK", numeric=True, none="-"),
        "r": column_of("partition", "PARTITION"),
        "O": column_of("override", "OVERRIDE", none="-"),
        "R": column_of("reason", "REASON", none="-"),
        "V": Field("SUBMIT_TIME", lambda row: row["submitted_at"], lambda row: shown_time(row["submitted_at"])),
        "g": column_of("generation", "GENERATION", numeric=True),
    }


def _by_letter(fields: dict[str, Field], factors: list[str], places: int) -> dict[str, Field]:
    """The columns by sprio's letters."""

    def normalised(row: Row) -> float:
        return float(row["priority"] / LARGEST_PRIORITY)

    letters = {
        "i": fields["id"],
        "u": fields["user"],
        "o": fields["account"],
        "w": fields["queue"],
        "n": fields["qos"],
        "c": fields["class"],
        "Y": fields["priority"],
        "y": Field("PRIORITY", normalised, _number(normalised, 10), numeric=True),
        **_more(),
    }
    for name, letter in LETTERS.items():
        absent = Field(name.upper(), lambda _: None, lambda _: "-", numeric=True)
        place = factors.index(name) if name in factors else None
        for raw, shown in ((True, letter), (False, letter.upper())):
            letters[shown] = absent if place is None else _factor_field(name, place, places, raw=raw)
    return letters

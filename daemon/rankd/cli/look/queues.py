"""``rankd queues``: the tree of queues, with the values that order them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.layout import Field, column_of, table_rows
from rankd.cli.common.option import add_asker, add_command, add_output, add_place, names
from rankd.cli.common.record_source import open_source
from rankd.cli.common.table import print_json, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rankd.cli.common.option import Subparsers
    from rankd.store.engine.reading import Row


def add_parser(subparsers: Subparsers) -> None:
    """Add ``queues``."""
    text = "The tree of queues: the priority of the best waiting job, offsets and fences, shares and limits."
    parser = add_command(subparsers, "queues", run, text, dash_h=False)
    parser.add_argument("-p", "--partition", type=names, metavar="PARTITIONS", help="only queues of these partitions")
    add_output(parser, "-h")
    add_place(parser, looks=True)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the tree."""
    found = open_source(arguments).queues()
    rows = [row for row in found if not arguments.partition or row["partition"] in arguments.partition]
    rows = in_order(rows)
    if arguments.json:
        print_json(rows)
        return 0
    used = fields()
    if len({row["partition"] for row in rows}) > 1:
        used.insert(1, column_of("partition", "PARTITION"))
    print_table([field.column() for field in used], table_rows(used, rows), header=not arguments.noheader)
    return 0


def in_order(rows: list[Row]) -> list[Row]:
    """Queues below their parents, in the parents' order. Queues without pending jobs come last, by name."""
    rank = {
        (row["partition"], row["path"]): (row["place"] is None, row["place"] or 0, row["path"].rpartition(".")[2])
        for row in rows
    }

    def key(row: Row) -> tuple[str, list[tuple[bool, int, str]]]:
        names = row["path"].split(".")
        above = (".".join(names[:depth]) for depth in range(1, len(names) + 1))
        return row["partition"], [rank.get((row["partition"], path), (True, 0, path)) for path in above]

    return sorted(rows, key=key)


def fields() -> list[Field]:
    """The columns."""
    return [
        Field("QUEUE", lambda row: "  " * row["path"].count(".") + row["path"].rpartition(".")[2]),
        column_of("priority", "PRIORITY", numeric=True, none="-"),
        column_of("policy", "POLICY"),
        column_of("offset", "OFFSET", numeric=True),
        Field("SORT", _sort),
        Field("SHARE", lambda row: row["share"], lambda row: f"{row['share']:.4f}", numeric=True),
        column_of("ahead_by", "AHEAD_BY", none="-"),
        column_of("pending_jobs", "PENDING", numeric=True),
        Field("APPS", _applications, numeric=True),
        Field("ALLOCATED", _amounts("allocated")),
        Field("GUARANTEED", _amounts("guaranteed")),
        Field("MAX", _amounts("max")),
    ]


def _sort(row: Row) -> str:
    return f"{row['sort_policy']}{'' if row['sort_priority'] == 'enabled' else ' (no priority)'}"


def _applications(row: Row) -> str:
    """The number of running applications, and the limit if there is one."""
    return f"{row['applications']}/{row['maxapplications']}" if row["maxapplications"] else str(row["applications"])


def _amounts(name: str) -> Callable[[Row], str]:
    from rankd.core.model.amount_text import shown_bytes

    def text(row: Row) -> str:
        amounts = row[name] or {}
        return ",".join(f"{k}={shown_bytes(v) if k == 'memory' else f'{v:g}'}" for k, v in amounts.items()) or "-"

    return text

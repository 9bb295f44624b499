"""``rankd config history``: which configurations came into force, when, by whom, and what each changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.option import LARGEST_LIMIT, add_asker, add_command, add_place, limit
from rankd.cli.common.place import find
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rankd.cli.common.option import Subparsers
    from rankd.store.record.configuration import Recorded

SHOWN = 20
LINES = 20


def add_history(verbs: Subparsers) -> None:
    """Add ``history`` to ``config``."""
    text = "List the configurations that came into force, newest first: when, by whom, and what each changed."
    history = add_command(verbs, "history", run, text)
    history.add_argument(
        "--diff", type=int, metavar="N", help="show how the files of configuration N differ from those before"
    )
    history.add_argument(
        "--limit", type=limit, default=SHOWN, metavar="N", help="show at most N configurations (default: 20)"
    )
    history.add_argument("--json", action="store_true", help="print JSON, with all changes and the files' texts")
    add_place(history, looks=True)
    add_asker(history)


def run(arguments: argparse.Namespace) -> int:
    """Read the records and print."""
    from rankd.cli.common.table import print_json

    if arguments.diff is not None:
        print("".join(_diff(_records(arguments, LARGEST_LIMIT), arguments.diff)), end="")
        return 0
    found = _records(arguments, arguments.limit)
    if arguments.json:
        print_json({"configurations": found})
        return 0
    for one in found:
        print("\n".join(_lines(one)))
    return 0


def _records(arguments: argparse.Namespace, most: int) -> list[Recorded]:
    """The latest ones, newest first."""
    import msgspec

    from rankd.cli.common.report import fetch_report, over_bus
    from rankd.store.engine.reading import open_for_reading, tuples
    from rankd.store.record.configuration import Recorded, latest_recorded

    if (place := over_bus(arguments)) is not None:
        from rankd.wire.report import ReportRequest

        text = fetch_report(place, arguments, ReportRequest(kind="configurations", limit=most))
        return msgspec.json.decode(text, type=dict[str, list[Recorded]])["configurations"]
    connection = open_for_reading(find(arguments).need_database())
    try:
        return latest_recorded(lambda sql, *given: tuples(connection, sql, *given), most)
    finally:
        connection.close()


def _lines(one: Recorded) -> Iterator[str]:
    from rankd.cli.common.duration import shown_time

    yield f"{one.number}  {shown_time(one.at)}  {one.event} by {one.actor}  {one.directory}"
    for change in one.changes[:LINES]:
        yield f"     {change}"
    if len(one.changes) > LINES:
        yield f"     … and {len(one.changes) - LINES} more: --json shows all"


def _diff(found: list[Recorded], number: int) -> Iterator[str]:
    """A unified diff of every file that has changed.

    Raises:
        Refused: ``unknown_configuration``.
    """
    from difflib import unified_diff

    from rankd.config.change import FILES

    new = next((one for one in found if one.number == number), None)
    old = next((one for one in found if one.number < number), None)
    if new is None:
        raise Refused("unknown_configuration", f"there is no configuration {number}", "diff")
    for name in FILES:
        before = [] if old is None else old.files.get(name, "").splitlines(keepends=True)
        after = new.files.get(name, "").splitlines(keepends=True)
        names = (f"{name} ({'none' if old is None else old.number})", f"{name} ({number})")
        for line in unified_diff(before, after, *names):
            yield line if line.endswith("\n") else f"{line}\n"

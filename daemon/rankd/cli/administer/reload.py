"""``rankd reload``: the services read the configuration's files again, or refuse them with the reasons."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place, limit
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from rankd.cli.common.option import Subparsers
    from rankd.wire.configuration import Reloaded

SHOWN = 20


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Read the configuration's files again, without a restart (administrators only). An error changes nothing."
    parser = add_command(subparsers, "reload", run, text)
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing; print which settings and whose ranks would change"
    )
    parser.add_argument(
        "--limit", type=limit, default=SHOWN, metavar="N", help="with --dry-run: show at most N jobs (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON; with --dry-run in the form of `rankd whatif`")
    add_place(parser)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the intake to reload, or compute on the live queue what a reload would change."""
    if arguments.dry_run:
        return _dry_run(arguments)
    from rankd.cli.common.channel import ask
    from rankd.wire.configuration import Reload, Reloaded

    reply = ask(arguments, "config.reload", Reload(), Reloaded)
    with telling(f"configuration {reply.number} is in force"):
        if arguments.json:
            from rankd.cli.common.table import print_json

            print_json(reply)
        else:
            _print(reply)
    return 0


def _print(reply: Reloaded) -> None:
    for warning in reply.warnings:
        print_line(f"warning: {warning}")
    if not reply.is_new:
        print_line(f"configuration {reply.number} is in force; the files say the same")
        return
    print_line(f"configuration {reply.number} is in force")
    _print_changes(reply.changes, reply.n_changes)


def _print_changes(lines: list[str], n_changes: int) -> None:
    for line in lines[:SHOWN]:
        print_line(f"  {line}")
    if n_changes > len(lines[:SHOWN]):
        print_line(f"  … and {n_changes - len(lines[:SHOWN])} more: `rankd config history` shows all")


def _dry_run(arguments: argparse.Namespace) -> int:
    """Print what a reload would change now.

    Raises:
        ConfigurationError: the reload would be refused. The error has all reasons.
    """
    from rankd.cli.common.report import fetch_report, over_bus
    from rankd.cli.what_if import whatif
    from rankd.config.checked import load_checked
    from rankd.config.configuration import read_files
    from rankd.config.difference import differences

    if (place := over_bus(arguments)) is not None:
        from rankd.wire.report import ReportRequest

        request = ReportRequest(kind="reload", limit=arguments.limit, text=not arguments.json)
        sys.stdout.write(fetch_report(place, arguments, request).decode())
        return 0
    directory, files = _in_force(arguments)
    checked = load_checked(directory)
    if not arguments.json and files is not None:
        lines = [str(change) for change in differences(files, read_files(directory)[0])]
        print("a reload would change:" if lines else "a reload would change nothing")
        _print_changes(lines, len(lines))
    arguments.config, arguments.live_config = directory, None
    arguments.weights, arguments.class_value, arguments.qos, arguments.offset = [], [], [], []
    arguments.submit, arguments.summary = None, False
    return whatif.report(arguments, checked)


def _in_force(arguments: argparse.Namespace) -> tuple[Path, dict[str, str] | None]:
    """The directory that the intake reads, and its files at the last reload."""
    from pathlib import Path

    from rankd.cli.common.place import find
    from rankd.cli.what_if.dump import configured_directory
    from rankd.store.engine.reading import open_for_reading, tuples
    from rankd.store.record.configuration import newest_recorded

    place = find(arguments)
    connection = open_for_reading(place.need_database())
    try:
        found = newest_recorded(lambda sql, *given: tuples(connection, sql, *given))
    finally:
        connection.close()
    if found is None:
        return configured_directory(place.directory), None
    return Path(found.directory), found.files

"""``rankd db backup``: the records in one file, while services run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_command, add_place
from rankd.cli.common.place import find
from rankd.core.errors import usable

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers


def add_backup(actions: Subparsers) -> None:
    """Add ``backup``."""
    text = "Write all records to one file, while services run: an SQLite file, or what pg_dump writes."
    parser = add_command(actions, "backup", run, text)
    parser.add_argument("out", type=Path, metavar="FILE", help="the file; an existing one is replaced")
    add_place(parser, looks=True)


def run(arguments: argparse.Namespace) -> int:
    """Write the file and print its size."""
    from rankd.store.engine.backup import back_up

    database = find(arguments).need_database()
    with usable(arguments.out, "out"):
        back_up(database, arguments.out)
        size = arguments.out.stat().st_size
    print(f"{arguments.out}: {size:,} bytes")
    return 0

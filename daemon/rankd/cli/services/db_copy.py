"""``rankd db copy``: a stopped site moves from one database into another."""

from __future__ import annotations

import sys
import time
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_command, refuse_empty
from rankd.core.errors import Refused, Unavailable, usable
from rankd.core.model.server_url import is_postgres

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.store.record.site_copy import TableSum

SAY_EVERY_S = 5.0


def add_copy(actions: Subparsers) -> None:
    """Add ``copy``."""
    text = "Copy all records of a stopped site into an empty database, either way between SQLite and PostgreSQL."
    parser = add_command(actions, "copy", run, text)
    for name, which in (("from", "that has the records"), ("to", "that gets them; a file is made")):
        parser.add_argument(
            f"--{name}",
            dest=f"{name}_url",
            required=True,
            metavar="URL",
            help=f"the database {which}: a file, or postgresql://USER@HOST/NAME",
        )


def run(arguments: argparse.Namespace) -> int:
    """Copy, compare, and print each table's number of rows."""
    import uvloop

    refuse_empty(arguments, "from_url", "to_url")
    sums = uvloop.run(_copy(_named(arguments.from_url), _named(arguments.to_url)))
    for one in sums:
        if one.rows:
            print(f"{one.name:<32} {one.rows:>12,} rows  {one.digest}")
    print(f"copied and compared: {sum(one.rows for one in sums):,} rows; the source is unchanged")
    return 0


def _named(url: str) -> Path | str:
    from rankd.store.engine.url import sqlite_path

    return url if is_postgres(url) else sqlite_path(url)


async def _copy(source: Path | str, target: Path | str) -> list[TableSum]:
    from rankd.store.engine.stopped import kept_stopped
    from rankd.store.engine.url import open_database
    from rankd.store.record.site_copy import copy_between
    from rankd.store.schema.migration import upgrade

    _check_source(source)
    _check_different(source, target)
    async with AsyncExitStack() as stack:
        for name in (source, target):
            if isinstance(name, Path):
                with usable(name, "db"):
                    name.parent.mkdir(parents=True, exist_ok=True)
                await stack.enter_async_context(kept_stopped(name))
        one = await stack.enter_async_context(open_database(source))
        other = await stack.enter_async_context(open_database(target))
        await upgrade(other)
        return await copy_between(one, other, _Progress().note)


def _check_source(source: Path | str) -> None:
    """Check that the source exists and has the schema of this version.

    Raises:
        Unavailable: ``no_database``, ``no_schema``.
    """
    from rankd.store.engine.maintenance import state_of, state_of_server
    from rankd.store.engine.url import shown
    from rankd.store.schema.migration import newest_revision

    if isinstance(source, Path) and not source.is_file():
        raise Unavailable("no_database", f"no database at {source}")
    found = (state_of(source) if isinstance(source, Path) else state_of_server(source)).revision
    if found != (newest := newest_revision()):
        message = f"{shown(source)} has revision {found}, and this version of rankd needs {newest}"
        raise Refused("wrong_revision", f"{message}: run `rankd db upgrade --db` on it first", "from")


def _check_different(source: Path | str, target: Path | str) -> None:
    """Check that both are not the same database.

    Raises:
        Refused: ``usage``.
        Unavailable: ``no_database``: a server does not answer.
    """
    if isinstance(source, Path) and isinstance(target, Path):
        same = target.exists() and source.samefile(target)
    else:
        same = isinstance(source, str) and isinstance(target, str) and _site(source) == _site(target)
    if same:
        raise Refused("usage", "--from and --to are the same database", "to")


def _site(url: str) -> object:
    from rankd.store.engine.postgres_site import SERVER
    from rankd.store.engine.reading import open_for_reading, tuples

    with closing(open_for_reading(url)) as connection:
        return tuples(connection, SERVER)


class _Progress:
    """Prints which table is being copied, on standard error."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def note(self, table: str, done: int, total: int) -> None:
        """Print it if the last line is old."""
        if time.monotonic() - self._said_at >= SAY_EVERY_S:
            self._said_at = time.monotonic()
            print(f"rankd: {table}: {done:,} of {total:,} rows", file=sys.stderr, flush=True)

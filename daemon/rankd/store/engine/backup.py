"""A copy of a database in one file, made while services run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from rankd.core.errors import Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.postgres_program import program_folders
from rankd.store.engine.reading import open_for_reading


class Command(NamedTuple):
    """A command line, and what its environment has besides that of this process."""

    words: list[str]
    variables: dict[str, str]


def back_up(database: Path | str, out: Path) -> None:
    """Write the state of the database at this moment to the file ``out``, which is replaced as a whole.

    Raises:
        Unavailable: ``no_pg_dump``: it is not installed; ``backup_failed``: the file is unchanged.
    """
    new = out.with_name(f".{out.name}.new")
    os.close(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    try:
        new.chmod(0o600)
        if isinstance(database, Path):
            _copy_file(database, new)
        else:
            _dump_server(database, new)
        with new.open("rb") as written:
            os.fsync(written.fileno())
        new.replace(out)
    finally:
        with suppress(FileNotFoundError):
            new.unlink()


def _copy_file(database: Path, new: Path) -> None:
    """By SQLite's backup in one step, so writers change nothing in it."""
    try:
        with closing(open_for_reading(database)) as source, closing(sqlite3.connect(new)) as target:
            source.rollback()
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
            found = [row[0] for row in target.execute("PRAGMA quick_check(1)")]
    except (sqlite3.Error, OSError) as error:
        raise Unavailable("backup_failed", f"the backup of {database} failed: {error}") from error
    if found != ["ok"]:
        raise Unavailable("backup_failed", f"the backup of {database} is damaged: {found[0]}")


def _dump_server(url: str, new: Path) -> None:
    command = dump_command(url, new)
    environment = os.environ | command.variables
    done = subprocess.run(  # noqa: S603 - our own command
        command.words, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise Unavailable("backup_failed", f"pg_dump failed: {said}")


def dump_command(url: str, out: Path) -> Command:
    """The command that writes the database of this URL to a file. A password is in its environment only.

    Raises:
        Unavailable: ``no_pg_dump``.
    """
    found = next(program_folders("pg_dump"), None)
    if found is None:
        message = "pg_dump is not installed: install Debian's postgresql-client of the server's version or newer"
        raise Unavailable("no_pg_dump", f"{message}, or run pg_dump -Fc on the server")
    parted = parted_password(url)
    return Command(
        [str(found / "pg_dump"), "--format=custom", "--no-owner", f"--file={out}", f"--dbname={parted[0]}"],
        dict(parted[1]),
    )


def parted_password(url: str) -> tuple[str, Mapping[str, str]]:
    """The URL without its password, and the variable in which programs of PostgreSQL find it.

    >>> parted_password("postgresql://ann:s%40fe@db.example.org/rankd?sslmode=require")
    ('postgresql://ann@db.example.org/rankd?sslmode=require', {'PGPASSWORD': 's@fe'})
    >>> parted_password("postgresql://ann@/rankd?host=/run/pg")
    ('postgresql://ann@/rankd?host=/run/pg', {})
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    kept = urlunsplit(parts._replace(netloc=f"{name}{at}{host}"))
    if host == "" and not kept.startswith(f"{parts.scheme}://"):
        kept = kept.replace(":", "://", 1)
    return kept, {"PGPASSWORD": unquote(password)} if colon else {}

"""Where rankd is: the broker to ask and the database to look into.

``rankd up`` writes ``<dir>/up.json``; flags and environment variables override what it says. The database of
a directory is found without a running ``up`` as well, so that looking works while nothing runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused, Unavailable

if TYPE_CHECKING:
    import argparse

DEFAULT_DIRECTORY = ".rankd"
UP_FILE = "up.json"
DATABASE_FILE = "rankd.db"


class Place(NamedTuple):
    """What is known; ``by_bus`` if the broker was named and the database was not."""

    directory: Path
    nats: str | None
    database: Path | None
    by_bus: bool = False

    def need_nats(self) -> str:
        """The broker's URL.

        Raises:
            Unavailable: ``not_running``.
        """
        if self.nats is None:
            raise Unavailable("not_running", f"nothing runs in {self.directory}: start `rankd up`, or give --nats URL")
        return self.nats

    def need_database(self) -> Path:
        """The database file.

        Raises:
            Unavailable: ``no_database``: none is known, or the file is not there.
        """
        if self.database is None:
            message = f"no database in {self.directory}: start `rankd up`, or give --db FILE or --nats URL"
            raise Unavailable("no_database", message)
        if not self.database.is_file():
            message = f"no database at {self.database}: give another --db FILE, or make it with `rankd db upgrade`"
            raise Unavailable("no_database", message)
        return self.database


def find(arguments: argparse.Namespace) -> Place:
    """Look at the flags, then the environment, then the directory."""
    directory = Path(arguments.dir or os.environ.get("RANKD_DIR") or DEFAULT_DIRECTORY)
    up = _read_up(directory)
    nats = arguments.nats or os.environ.get("RANKD_NATS") or up.get("nats")
    named = arguments.db or os.environ.get("RANKD_DB") or up.get("db")
    database = sqlite_file(named) if named else _database_in(directory)
    return Place(directory, nats, database, by_bus=bool(arguments.nats and not arguments.db))


def sqlite_file(text: str) -> Path:
    """The file behind ``--db``: a path or ``sqlite:///FILE`` (without SQLAlchemy, which is slow to import).

    Raises:
        Refused: ``usage``: another kind of database.
    """
    if text.startswith("sqlite:///"):
        text = text.removeprefix("sqlite:///")
    elif "://" in text:
        raise Refused("usage", f"'{text}': this version stores in SQLite; give a path or sqlite:///FILE", "db")
    return Path(text)


def _database_in(directory: Path) -> Path | None:
    path = directory / DATABASE_FILE
    return path if path.is_file() else None


def _read_up(directory: Path) -> dict[str, str]:
    import msgspec

    try:
        text = (directory / UP_FILE).read_bytes()
    except OSError:
        return {}
    try:
        up = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return {name: msgspec.json.decode(up[name], type=str) for name in ("nats", "db") if name in up}
    except msgspec.MsgspecError as error:
        raise Refused("bad_request", f"{directory / UP_FILE}: {error}") from None

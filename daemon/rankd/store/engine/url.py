"""Which database a URL names. Only this module chooses the implementation of :class:`.database.Database`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.engine import make_url

from rankd.core.errors import Unavailable
from rankd.core.model.server_url import is_postgres, without_password
from rankd.store.engine.database import Database
from rankd.store.engine.sqlite import SqliteDatabase


def open_database(
    url: str | Path,
    *,
    durable: bool = True,
    clock: Callable[[], float] = time.time,
    directory: Path | None = None,
) -> Database:
    """The database that ``--db`` names: an SQLAlchemy URL or a plain path. Use it with ``async with``.

    Commits survive a power failure unless ``durable`` is false; then the last ones may be lost. ``clock`` returns UTC
    seconds; it dates the signs of life in SQLite. ``directory`` has the other files of rankd if the database is a
    server (default: $RANKD_DIR, then .rankd).

    Raises:
        Unavailable: ``unsupported_database``: the URL names another kind of database, or its driver is missing.
    """
    if is_postgres(url):
        directory = directory or Path(os.environ.get("RANKD_DIR") or ".rankd")
        return _postgres(str(url), durable=durable, directory=directory)
    return SqliteDatabase(sqlite_path(str(url)), durable=durable, clock=clock)


def _postgres(url: str, *, durable: bool, directory: Path) -> Database:
    try:
        from rankd.store.engine.postgres import PostgresDatabase  # noqa: PLC0415 - it needs psycopg, which is optional
    except ImportError as error:
        message = f"PostgreSQL needs the driver psycopg: install rankd[postgresql] ({error})"
        raise Unavailable("unsupported_database", message) from error
    return PostgresDatabase(url, directory.absolute(), durable=durable)


def sqlite_path(url: str) -> Path:
    """The file that ``--db`` names, as an SQLAlchemy URL (``sqlite:////var/lib/rankd.db``) or as a plain path.

    Raises:
        Unavailable: ``unsupported_database``: the URL names another kind of database.
    """
    if "://" not in url:
        return Path(url).absolute()
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        message = f"'{parsed!r}' is not supported; give sqlite:///FILE or postgresql://USER@HOST/NAME"
        raise Unavailable("unsupported_database", message)
    return Path(parsed.database).absolute()


def shown(database: Path | str) -> str:
    """What ``--db`` names, without a password."""
    return without_password(str(database)) if is_postgres(database) else str(database)

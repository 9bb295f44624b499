"""Which database a URL names. Only this module chooses the implementation of :class:`.database.Database`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.engine import make_url

from rankd.core.errors import Unavailable
from rankd.store.engine.database import Database
from rankd.store.engine.sqlite import SqliteDatabase


def open_database(url: str | Path, *, durable: bool = True, clock: Callable[[], float] = time.time) -> Database:
    """The database that ``--db`` names: an SQLAlchemy URL or a plain path. Use it with ``async with``.

    Commits survive a power failure unless ``durable`` is false; then the last ones may be lost. ``clock`` returns UTC
    seconds; it dates the signs of life.

    Raises:
        Unavailable: ``unsupported_database``: the URL does not name an SQLite file.
    """
    return SqliteDatabase(sqlite_path(str(url)), durable=durable, clock=clock)


def sqlite_path(url: str) -> Path:
    """The file that ``--db`` names, as an SQLAlchemy URL (``sqlite:////var/lib/rankd.db``) or as a plain path.

    Raises:
        Unavailable: ``unsupported_database``: the URL names another kind of database.
    """
    if "://" not in url:
        return Path(url).absolute()
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise Unavailable("unsupported_database", f"'{url}': this version stores in SQLite; give sqlite:///FILE")
    return Path(parsed.database).absolute()

"""What an administrator can ask about a database file: its state, and any query with a time limit."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.reading import ReadConnection, is_server, open_for_reading, open_server

if TYPE_CHECKING:
    from pathlib import Path

STEPS_PER_LOOK = 10_000
"""Virtual machine steps of SQLite between two looks at the clock."""
MOST_PROBLEMS = 20
_SERVER = """
SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')"""
_CANCELLED = "57014"
"""PostgreSQL's code of a statement that was stopped."""


class DatabaseState(NamedTuple):
    """The findings of ``rankd db check``. ``revision`` is that of the schema; None without a schema."""

    sqlite: str
    revision: str | None
    journal: str
    problems: list[str]


def state_of(path: Path) -> DatabaseState:
    """Check the file: SQLite's version, the schema's revision, the journal mode, and up to 20 integrity problems.

    Raises:
        Unavailable: ``database_unreadable``: the file is not a database.
    """
    with closing(open_for_reading(path)) as connection:
        try:
            found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})")]
            return DatabaseState(
                sqlite=sqlite3.sqlite_version,
                revision=_revision(connection),
                journal=connection.execute("PRAGMA journal_mode").fetchone()[0],
                problems=[] if found == ["ok"] else found,
            )
        except sqlite3.DatabaseError as error:
            raise Unavailable("database_unreadable", f"{path}: {error}") from error


def _revision(connection: ReadConnection) -> str | None:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").fetchone()
    row = connection.execute("SELECT version_num FROM schema_version").fetchone() if known else None
    return row[0] if row else None


def state_of_server(url: str) -> DatabaseState:
    """The same of a PostgreSQL server. ``sqlite`` is its version, and ``journal`` how it commits.

    Raises:
        Unavailable: ``no_database``.
    """
    with closing(open_server(url)) as connection:
        [(version, commits, fsync)] = connection.execute(_SERVER).fetchall()
        [(has_schema,)] = connection.execute("SELECT to_regclass('schema_version') IS NOT NULL").fetchall()
        row = connection.execute("SELECT version_num FROM schema_version").fetchone() if has_schema else None
    problems = [] if fsync == "on" else ["fsync is off: a power failure may destroy the database"]
    if commits == "off":
        problems.append("synchronous_commit is off: the last commits may be lost in a power failure")
    return DatabaseState(version, row[0] if row else None, f"synchronous_commit {commits}", problems)


def limited_query_of_server(
    connection: ReadConnection, sql: str, limit_s: float
) -> tuple[list[str], list[tuple[object, ...]]]:
    """As :func:`limited_query`, on a connection to a PostgreSQL server."""
    connection.execute(f"SET LOCAL statement_timeout = {max(1, round(limit_s * 1000))}")
    try:
        cursor = connection.execute(sql)
        rows = cursor.fetchall() if cursor.description else []
    except Exception as error:
        state = getattr(error, "sqlstate", None)
        if state == _CANCELLED:
            raise Refused("query_too_slow", f"the query took over {limit_s:g} s; see --limit-s", "query") from None
        if state is None:
            raise
        raise Refused("bad_query", " ".join(str(error).split()), "query") from None
    return [column[0] for column in cursor.description or ()], rows


def limited_query(connection: ReadConnection, sql: str, limit_s: float) -> tuple[list[str], list[tuple[object, ...]]]:
    """Run a query; returns the columns' names and all rows.

    Raises:
        Refused: ``bad_query``, or ``query_too_slow`` after ``limit_s`` seconds.
    """
    if is_server(connection):
        return limited_query_of_server(connection, sql, limit_s)
    deadline = time.monotonic() + limit_s
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), STEPS_PER_LOOK)
    try:
        cursor = connection.execute(sql)
        rows = cursor.fetchall()
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise Refused("query_too_slow", f"the query took over {limit_s:g} s; see --limit-s", "query") from None
        raise Refused("bad_query", f"{error}", "query") from None
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise Refused("bad_query", f"{error}", "query") from None
    return [column[0] for column in cursor.description or ()], rows

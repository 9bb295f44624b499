"""``rankd db``: upgrades the schema, checks the file, deletes old jobs, and runs queries that can't write."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_command, add_output, add_place
from rankd.cli.common.place import find
from rankd.cli.common.table import Column, print_json, print_table
from rankd.cli.services.db_backup import add_backup
from rankd.cli.services.db_copy import add_copy
from rankd.client.instant import parse_time
from rankd.client.place import DEFAULT_DIRECTORY
from rankd.client.up_file import DATABASE_FILE
from rankd.core.errors import Refused, usable
from rankd.store.engine.maintenance import limited_query, state_of, state_of_server
from rankd.store.engine.reading import open_for_reading

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers

LEAST_AGE_S = 3_600.0
TIME_LIMIT_S = 10.0


def add_parser(subparsers: Subparsers) -> None:
    """Add ``db`` with its actions."""
    database = add_command(subparsers, "db", run_check, "The database.")
    actions = database.add_subparsers(metavar="COMMAND", required=True)
    for name, run, text in (
        (
            "upgrade",
            run_upgrade,
            "Make the database, or bring its schema to this version. A second run changes nothing.",
        ),
        ("check", run_check, "SQLite's version, the schema's revision, and the file's integrity."),
    ):
        parser = add_command(actions, name, run, text)
        add_place(parser, looks=True)
    add_copy(actions)
    add_backup(actions)
    prune = add_command(
        actions, "prune", run_prune, "Delete jobs that ended before a time, and older events. Their usage stays."
    )
    prune.add_argument(
        "--before",
        required=True,
        metavar="TIME",
        help="delete jobs that ended before this time, such as 2026-01-31; at least an hour ago",
    )
    add_place(prune)
    sql = add_command(
        actions, "sql", run_sql, "Run a query. It can't write, and it is stopped after a time limit.", dash_h=False
    )
    sql.add_argument("query", metavar="QUERY", help="the SQL text, such as 'SELECT * FROM job_priority LIMIT 10'")
    sql.add_argument(
        "--limit-s",
        type=float,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help="stop the query after this time (default: 10)",
    )
    add_output(sql, "-h")
    add_place(sql, looks=True)


def run_upgrade(arguments: argparse.Namespace) -> int:
    """Run the missing Alembic revisions, and replace the views."""
    place = find(arguments)
    if place.server is not None:
        return _upgrade_server(place.server)
    path = place.database or (place.directory or Path(DEFAULT_DIRECTORY)) / DATABASE_FILE
    with usable(path, "db"):
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    import uvloop

    from rankd.store.engine.url import open_database
    from rankd.store.schema.migration import upgrade

    async def run() -> None:
        async with open_database(path.absolute()) as database:
            await upgrade(database)

    uvloop.run(run())
    print(f"{path}: revision {state_of(path).revision}")
    return 0


def _upgrade_server(url: str) -> int:
    import uvloop

    from rankd.store.engine.url import open_database
    from rankd.store.schema.migration import upgrade

    async def run() -> None:
        async with open_database(url) as database:
            await upgrade(database)

    uvloop.run(run())
    print(f"revision {state_of_server(url).revision}")
    return 0


def run_prune(arguments: argparse.Namespace) -> int:
    """Delete old jobs and events once, as the intake does regularly. Services may run at the same time."""
    import uvloop

    from rankd.core.model.service_setting import RetentionSettings
    from rankd.services.intake.retention_sweep import sweep
    from rankd.store.engine.url import open_database

    path, now = find(arguments).need_database(), time.time()
    age = now - parse_time(arguments.before, now, "past")
    if age < LEAST_AGE_S:
        raise Refused("usage", f"--before {arguments.before}: give a time at least an hour ago", "before")

    async def run() -> dict[str, int]:
        async with open_database(path) as database:
            return await sweep(database, RetentionSettings(jobs_s=age, events_s=age), now)

    for kind, number in uvloop.run(run()).items():
        print(f"{kind:<12} {number} deleted")
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Print the state of the database. Returns 1 if it has a problem."""
    from rankd.store.schema.migration import newest_revision

    database = find(arguments).need_database()
    newest = newest_revision()
    if isinstance(database, str):
        state = state_of_server(database)
        print(f"PostgreSQL {state.sqlite}\ncommits   {state.journal}\nrevision  {state.revision}")
    else:
        state = state_of(database)
        print(f"database  {database}\nSQLite    {state.sqlite}\njournal   {state.journal}\nrevision  {state.revision}")
    if state.revision != newest:
        print(f"          this version of rankd needs {newest}: run `rankd db upgrade`")
    print("integrity " + ("ok" if not state.problems else "\n          ".join(state.problems)))
    return 0 if not state.problems and state.revision == newest else 1


def run_sql(arguments: argparse.Namespace) -> int:
    """Print a query's rows."""
    connection = open_for_reading(find(arguments).need_database())
    try:
        names, rows = limited_query(connection, arguments.query, arguments.limit_s)
    finally:
        connection.close()
    if arguments.json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return 0
    numeric = [all(isinstance(row[place], int | float | None) for row in rows) for place in range(len(names))]
    columns = [Column(name, is_number) for name, is_number in zip(names, numeric, strict=True)]
    print_table(
        columns,
        [["" if cell is None else str(cell) for cell in row] for row in rows],
        header=not arguments.noheader,
    )
    return 0

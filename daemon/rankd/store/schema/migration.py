"""The schema: Alembic's revisions, from the wheel or the repository, and the views based on them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from rankd.core.errors import Unavailable
from rankd.core.model.server_url import is_postgres
from rankd.store.engine.database import Database
from rankd.store.engine.postgres_function import after_tables, before_tables, mark_views, same_views
from rankd.store.schema import generation_table, table
from rankd.store.schema.view import fixed_views

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "schema_version"
LOCK_TIMEOUT_MS = 800
"""Shorter than PostgreSQL waits before it looks for deadlocks, so that it ends neither a reader nor the upgrade."""
AGAIN_S = 0.3
PATIENCE_S = 60.0
_METADATA = table.metadata
assert generation_table.generations.metadata is _METADATA  # noqa: S101 - both modules declare tables of it
_PACKAGE = Path(__file__).resolve().parents[2]


def shipped(name: str) -> Path:
    """A folder shipped with rankd (``config``, ``migrations``): in the wheel, or in the repository."""
    inside = _PACKAGE / f"_{name}"
    return inside if inside.is_dir() else _PACKAGE.parents[1] / name


async def upgrade(database: Database) -> None:
    """Upgrade the schema to the newest revision and replace the fixed views. A second call changes nothing.

    Services may run meanwhile. In PostgreSQL, a change of a table waits for all queries that use it, and all later
    ones wait for the change. So the upgrade waits only for a moment, and then tries again as a whole.

    Raises:
        Unavailable: ``tables_in_use``: queries of others have used a table for :data:`PATIENCE_S`.
    """
    from alembic import command  # noqa: F401, PLC0415 - a slow import, before the transaction

    begun = time.monotonic()
    while True:
        try:
            await database.write(_upgrade)
        except Unavailable as error:
            if not is_postgres(database.url) or not _is_lock_conflict(error):
                raise
            if time.monotonic() - begun > PATIENCE_S:
                message = "queries of others use the tables that have to be changed; end them, or try again later"
                raise Unavailable("tables_in_use", message) from error
            await asyncio.sleep(AGAIN_S)
        else:
            return


def _is_lock_conflict(error: BaseException) -> bool:
    from rankd.store.engine.postgres_connection import is_lock_conflict  # noqa: PLC0415 - psycopg is optional

    return is_lock_conflict(error)


def newest_revision() -> str | None:
    """The newest revision of this version of rankd."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - a slow import that only these functions need

    return ScriptDirectory.from_config(_configured()).get_current_head()


def _configured() -> Config:
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - as above

    config = _configured()
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout TO {LOCK_TIMEOUT_MS}")
        make_tables(connection)
    command.upgrade(config, "head")
    if connection.dialect.name == "postgresql":
        after_tables(connection, _METADATA)
    replace_views(connection, fixed_views())


def make_tables(connection: Connection) -> None:
    """Make the declared tables in a PostgreSQL database that has none. Earlier revisions were for SQLite only."""
    from alembic import command  # noqa: PLC0415 - as above

    before_tables(connection)
    if not inspect(connection).has_table(VERSION_TABLE):
        _METADATA.create_all(connection)
        config = _configured()
        config.attributes["connection"] = connection
        command.stamp(config, "head")


def replace_views(connection: Connection, views: dict[str, str]) -> None:
    """Drop and create views, in the caller's transaction, so a reader sees either the old or the new ones.

    A view may use those before it. In PostgreSQL, dropping a view waits for all queries that use it. So nothing is done
    there if the views are the same already.
    """
    if connection.dialect.name == "postgresql" and same_views(connection, views):
        return
    for name in reversed(views):
        drop = f'DROP VIEW IF EXISTS "{name}"'
        connection.exec_driver_sql(drop)
    for statement in views.values():
        connection.exec_driver_sql(statement)
    if connection.dialect.name == "postgresql":
        mark_views(connection, views)

"""The schema: Alembic's revisions, from the wheel or the repository, and the views based on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from rankd.store.engine.database import Database
from rankd.store.schema.view import fixed_views

if TYPE_CHECKING:
    from alembic.config import Config

_PACKAGE = Path(__file__).resolve().parents[2]


def shipped(name: str) -> Path:
    """A folder shipped with rankd (``config``, ``migrations``): in the wheel, or in the repository."""
    inside = _PACKAGE / f"_{name}"
    return inside if inside.is_dir() else _PACKAGE.parents[1] / name


async def upgrade(database: Database) -> None:
    """Upgrade the schema to the newest revision and replace the fixed views. A second call changes nothing."""
    database.path.parent.mkdir(parents=True, exist_ok=True)
    await database.write(_upgrade)


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
    command.upgrade(config, "head")
    replace_views(connection, fixed_views())


def replace_views(connection: Connection, views: dict[str, str]) -> None:
    """Drop and create views, in the caller's transaction, so a reader sees either the old or the new ones."""
    for name, statement in views.items():
        connection.exec_driver_sql(f'DROP VIEW IF EXISTS "{name}"')
        connection.exec_driver_sql(statement)

"""The configuration that a service uses: the one that the intake recorded last.

Only the intake reads the directory that a service is started with. The other services read theirs only as long as no
intake has recorded a configuration. So all three use the same texts, even while somebody edits the files.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from sqlalchemy.exc import OperationalError

from rankd.config.configuration import Configuration, load_configuration, read_configuration
from rankd.config.plugin import factor_names
from rankd.config.settings import check_weights
from rankd.core.errors import ConfigurationError, Unavailable
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.catalog import Catalog, read_catalog, sync_catalog
from rankd.store.record.configuration import Recorded, newest_configuration, newest_recorded


class Stated(NamedTuple):
    """A configuration as its files state it, and its number; the number is None if no intake recorded it."""

    number: int | None
    configuration: Configuration


async def read_stated(database: Database, directory: Path) -> Stated:
    """The configuration to start with.

    Raises:
        ConfigurationError: the directory's files, or the recorded ones, can't be used.
        Unavailable: ``storage_failed``: the database has no such table.
    """
    found = await last_recorded(database)
    if found is None:
        return Stated(None, await asyncio.to_thread(load_configuration, directory))
    return Stated(found.number, await asyncio.to_thread(parsed, found))


async def last_recorded(database: Database) -> Recorded | None:
    """The newest recorded configuration, for a service that starts; None if there is none.

    Raises:
        Unavailable: as :func:`read_stated`.
    """
    try:
        return await database.read_in_thread(lambda c: newest_recorded(c.exec_driver_sql))
    except OperationalError as error:
        message = f"the database can't be read; `rankd db upgrade` creates its tables: {error.orig}"
        raise Unavailable("storage_failed", message) from error


def parsed(found: Recorded) -> Configuration:
    """The configuration that was recorded, parsed.

    Raises:
        ConfigurationError: this version cannot use what another version of rankd recorded.
    """
    return read_configuration(found.directory, found.files)


async def settled(database: Database, role: str, stated: Stated, directory: Path) -> tuple[Stated, Catalog]:
    """The configuration and the ids of its names; reads a newer configuration if one was recorded since ``stated``."""
    while True:
        read, now = stated, time.time()
        catalog = await database.write(lambda c: _catalog(c, read, now), role=role)  # noqa: B023 - done within the turn
        if catalog is not None:
            return stated, catalog
        stated = await read_stated(database, directory)


def _catalog(connection: Connection, stated: Stated, now: float) -> Catalog | None:
    """The ids; None if another configuration has been recorded since. A recorded one already has its names there."""
    if newest_configuration(connection.exec_driver_sql) != stated.number:
        return None
    if stated.number is None:
        return sync_catalog(connection, stated.configuration, now)
    return read_catalog(connection)


def with_weights(configuration: Configuration, weights: Mapping[str, float]) -> Configuration:
    """The configuration with some weights replaced.

    Raises:
        ConfigurationError: an unknown factor, or an invalid weight.
    """
    if not weights:
        return configuration
    settings = configuration.settings
    priority = msgspec.structs.replace(settings.priority, weights={**settings.priority.weights, **weights})
    if problems := check_weights(priority, factor_names(), "--weight"):
        raise ConfigurationError(problems)
    return msgspec.structs.replace(configuration, settings=msgspec.structs.replace(settings, priority=priority))

"""The configuration that a service uses: the one that the intake recorded last.

Only the intake reads the directory that a service is started with. The other services read theirs only as long as no
intake has recorded a configuration. So all three use the same texts, even while somebody edits the files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rankd.config.configuration import Configuration, load_configuration, read_configuration
from rankd.config.plugin import factor_names
from rankd.config.settings import check_weights
from rankd.core.errors import ConfigurationError
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection, needs_tables
from rankd.store.engine.database import Database
from rankd.store.record.catalog import Catalog, read_catalog, sync_catalog
from rankd.store.record.configuration import Recorded, newest_configuration, newest_recorded


class NumberedConfiguration(NamedTuple):
    """A configuration as its files state it, and its number; the number is None if no intake recorded it."""

    number: int | None
    configuration: Configuration


async def starting_configuration(database: Database, directory: Path) -> NumberedConfiguration:
    """The configuration to start with.

    Raises:
        ConfigurationError: the directory's files, or the recorded ones, can't be used.
        Unavailable: ``storage_failed``: the database has no such table.
    """
    found = await last_recorded(database)
    if found is None:
        return NumberedConfiguration(None, await asyncio.to_thread(load_configuration, directory))
    return NumberedConfiguration(found.number, await asyncio.to_thread(parsed, found))


async def last_recorded(database: Database) -> Recorded | None:
    """The newest recorded configuration, for a service that starts; None if there is none.

    Raises:
        Unavailable: as :func:`starting_configuration`.
    """
    with needs_tables():
        return await database.read_in_thread(lambda c: newest_recorded(c.exec_driver_sql))


def parsed(found: Recorded) -> Configuration:
    """The configuration that was recorded, parsed.

    Raises:
        ConfigurationError: this version cannot use what another version of rankd recorded.
    """
    return read_configuration(found.directory, found.files)


async def with_catalog(
    database: Database, role: str, read: NumberedConfiguration, directory: Path, clock: Clock
) -> tuple[NumberedConfiguration, Catalog]:
    """The configuration and the ids of its names; reads a newer configuration if one was recorded since ``read``."""
    while True:
        catalog = await database.write(partial(_catalog, read=read, now=clock()), role=role)
        if catalog is not None:
            return read, catalog
        read = await starting_configuration(database, directory)


def _catalog(connection: Connection, read: NumberedConfiguration, now: float) -> Catalog | None:
    """The ids; None if another configuration has been recorded since. A recorded one already has its names there."""
    if newest_configuration(connection.exec_driver_sql) != read.number:
        return None
    if read.number is None:
        return sync_catalog(connection, read.configuration, now)
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

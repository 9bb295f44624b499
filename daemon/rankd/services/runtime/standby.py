"""Standing by for a role: the records are followed until the role is free, so that the first round then is short."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

from rankd.config.configuration import Configuration
from rankd.core.errors import ConfigurationError, Unavailable
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import Patience, is_set
from rankd.services.runtime.service_configuration import NumberedConfiguration, starting_configuration
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.catalog import Catalog, read_catalog
from rankd.store.record.configuration import newest_configuration

log = logging.getLogger("rankd.role")

T = TypeVar("T")

FOLLOW_EVERY_S = 1.0

Follow = Callable[[], Awaitable[None]]


async def take_role(database: Database, role: str, clock: Clock, follow: Follow | None = None) -> None:
    """Become the holder of ``role``. If the database has standbys, ``follow`` is called again and again meanwhile.

    No call of ``follow`` is under way when this returns.

    Raises:
        Unavailable: as :meth:`.Database.take_role`.
    """
    if not database.has_standbys or follow is None:
        await database.take_role(role, clock())
        return
    taken = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow(follow, taken))
        await database.take_role(role, clock())
        taken.set()


async def _follow(follow: Follow, taken: asyncio.Event) -> None:
    patience = Patience("standbys", log)
    while not taken.is_set():
        try:
            await follow()
        except Unavailable as error:
            await patience.wait(error)
        else:
            patience.over()
            await is_set(taken, FOLLOW_EVERY_S)


class WarmSource(Generic[T]):
    """The memory of a service that stands by, kept up to date with the records and the recorded configuration.

    ``make`` builds an empty memory. ``update`` loads everything into it, or what has changed since the last call.
    """

    def __init__(
        self,
        database: Database,
        directory: Path,
        make: Callable[[Configuration, Catalog], T],
        update: Callable[[T, Connection], None],
    ) -> None:
        self._database = database
        self._directory = directory
        self._make = make
        self._update = update
        self._number: int | None = None
        self._source: T | None = None

    async def follow(self) -> None:
        """Read what has changed. Does nothing until a configuration is recorded.

        Raises:
            Unavailable: the database does not answer.
        """
        newest = await self._database.read(lambda c: newest_configuration(c.exec_driver_sql))
        if newest is None:
            return
        if newest != self._number:
            await self._begin(newest)
        if (source := self._source) is not None:
            await self._database.read_in_thread(lambda c: self._update(source, c))

    async def _begin(self, newest: int) -> None:
        """Begin again with this configuration. Without a memory if this version of rankd can't use it."""
        try:
            stated = await starting_configuration(self._database, self._directory)
            catalog = await self._database.read(read_catalog)
            source = await asyncio.to_thread(self._make, stated.configuration, catalog)
        except ConfigurationError as error:
            log.error("configuration %d can't be used, so nothing is read in advance: %s", newest, error)  # noqa: TRY400
            self._number, self._source = newest, None
        else:
            self._number, self._source = stated.number, source

    def take(self, stated: NumberedConfiguration, catalog: Catalog) -> T:
        """The memory to begin with, for the configuration that is in force now: an empty one if there is no other."""
        if self._source is not None and self._number == stated.number:
            return self._source
        return self._make(stated.configuration, catalog)

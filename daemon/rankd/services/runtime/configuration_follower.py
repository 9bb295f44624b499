"""How the prioritizer and the scheduler follow the configurations that the intake records.

An event wakes them, and they read the records once a second anyway. If a service cannot use a configuration, it logs
and counts that, and the one before stays in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from rankd.bus.connection import Bus
from rankd.bus.liveness import Loops
from rankd.config.configuration import Configuration
from rankd.core.errors import RankdError, Unavailable
from rankd.services.runtime.life import Patience, Wake
from rankd.services.runtime.service_configuration import NumberedConfiguration, parsed
from rankd.store.engine.database import Database
from rankd.store.record.configuration import newest_configuration, recorded
from rankd.wire.diag import ConfigurationDiag
from rankd.wire.subject import EVENT_CONFIGURATION

log = logging.getLogger("rankd.configuration")

T = TypeVar("T")

LOOK_EVERY_S = 1.0
ROUND_S = 300.0
"""A bound this long, because factors of other packages may have to be loaded."""


class Prepared(NamedTuple, Generic[T]):
    """What a service built from a recorded configuration, and that configuration's number."""

    number: int | None
    parts: T


class ConfigurationFollower(Generic[T]):
    """Reads configurations that are newer than the one in force, and keeps the newest until the service adopts it.

    ``prepare`` builds what the service needs from a configuration. It runs in a thread, and everything that can fail
    fails there. ``notify`` is called when a configuration is ready for :meth:`adopt`.
    """

    def __init__(self, database: Database, prepare: Callable[[Configuration], T], notify: Callable[[], None]) -> None:
        self.wake = Wake()
        self.in_force: int | None = None
        """The number of the configuration that the service uses; None for the files that it was started with."""
        self.prepared: Prepared[T] | None = None
        """The configuration that the service adopts in its next round."""
        self._seen: int | None = None
        self._database = database
        self._prepare = prepare
        self._notify = notify
        self._failed = 0
        self._message: str | None = None

    def start_from(self, number: int | None) -> None:
        """Set the number of the configuration that the service starts with; later ones are new."""
        self.in_force = self._seen = number

    async def listen(self, bus: Bus) -> None:
        """Subscribe to the event that wakes this follower."""
        await self.wake.listen(bus, EVENT_CONFIGURATION)

    async def run(self, loops: Loops) -> None:
        """Look for new configurations until cancelled."""
        loop, patience = loops.add("changes of the configuration", ROUND_S), Patience("changes", log)
        while True:
            loop.beat()
            try:
                await self.run_once()
            except Unavailable as error:
                await patience.wait(error)
            else:
                patience.over()
                await self.wake.wait(LOOK_EVERY_S)

    async def run_once(self) -> None:
        """Look once for a new configuration."""
        newest = await self._database.read(lambda c: newest_configuration(c.exec_driver_sql))
        if newest is None or newest == self._seen:
            return
        before, self._seen = self._seen, newest
        try:
            found = await self._database.read_in_thread(lambda c: recorded(c.exec_driver_sql, newest))
            if found is not None:
                await self.prepare(NumberedConfiguration(newest, await asyncio.to_thread(parsed, found)))
        except RankdError as error:
            self._seen = before if error.retryable else newest
            self._fail(newest, error.message)
        except Exception as error:
            log.exception("configuration %d can't be used", newest)
            self._fail(newest, f"{type(error).__name__}: {error}")
        else:
            self._message = None

    async def prepare(self, stated: NumberedConfiguration) -> None:
        """Prepare a configuration for the service's next round.

        Raises:
            ConfigurationError: the service cannot use it.
        """
        parts = await asyncio.to_thread(self._prepare, stated.configuration)
        self.prepared = Prepared(stated.number, parts)
        self._notify()

    async def adopt(self, use: Callable[[Prepared[T]], Awaitable[None]]) -> None:
        """Put the prepared configuration into force, if there is one. The service calls this between two rounds.

        It stays prepared if ``use`` fails, so that the next round tries again.
        """
        new = self.prepared
        if new is None:
            return
        await use(new)
        self.in_force = new.number
        if self.prepared is new:
            self.prepared = None
        log.info("configuration %s is in force", new.number)

    def _fail(self, number: int, message: str) -> None:
        self._failed += 1
        self._message = f"configuration {number}: {message}"
        kept = "the files of the start" if self.in_force is None else f"configuration {self.in_force}"
        log.error("configuration %d is not used, %s stays in force: %s", number, kept, message)

    def diag(self) -> ConfigurationDiag:
        """Which configuration is in force here, and why a newer one could not be used."""
        return ConfigurationDiag(number=self.in_force, failed=self._failed, message=self._message)

"""How the prioritizer and the scheduler learn that the intake has recorded another configuration.

They hear of it by its event, and look at the records once a second. What they can't take is logged and counted, and
the one before stays in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rankd.bus.connection import Bus
from rankd.bus.liveness import Loops
from rankd.core.errors import RankdError, Unavailable
from rankd.services.runtime.life import Patience, Wake
from rankd.services.runtime.stated import Stated, parsed
from rankd.store.engine.database import Database
from rankd.store.record.configuration import newest_configuration, recorded
from rankd.wire.diag import ConfigurationDiag
from rankd.wire.subject import EVENT_CONFIGURATION

log = logging.getLogger("rankd.configuration")

LOOK_EVERY_S = 1.0
ROUND_S = 300.0
"""Factors of other packages may have to be loaded."""


class ConfigurationFollower:
    """Reads what is newer than ``number`` and hands it to ``take``, which keeps it for its service's next round.

    The service sets :attr:`in_force` once it goes by it.
    """

    def __init__(self, number: int | None, database: Database, take: Callable[[Stated], Awaitable[None]]) -> None:
        self.wake = Wake()
        self.in_force = number
        self._seen = number
        self._database = database
        self._take = take
        self._failed = 0
        self._message: str | None = None

    async def listen(self, bus: Bus) -> None:
        """Be woken by the event."""
        await self.wake.listen(bus, EVENT_CONFIGURATION)

    async def run(self, loops: Loops) -> None:
        """For ever."""
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
        """Look once."""
        newest = await self._database.read_at_once(lambda c: newest_configuration(c.exec_driver_sql))
        if newest is None or newest == self._seen:
            return
        before, self._seen = self._seen, newest
        try:
            found = await self._database.read_in_thread(lambda c: recorded(c.exec_driver_sql, newest))
            if found is not None:
                await self._take(Stated(newest, await asyncio.to_thread(parsed, found)))
        except RankdError as error:
            self._seen = before if error.retryable else newest
            self._fail(newest, error.message)
        except Exception as error:
            log.exception("configuration %d can't be taken", newest)
            self._fail(newest, f"{type(error).__name__}: {error}")
        else:
            self._message = None

    def _fail(self, number: int, message: str) -> None:
        self._failed += 1
        self._message = f"configuration {number}: {message}"
        kept = "the files of the start" if self.in_force is None else f"configuration {self.in_force}"
        log.error("configuration %d is not taken, %s stays in force: %s", number, kept, message)

    def diag(self) -> ConfigurationDiag:
        """What is in force here, and what could not be taken."""
        return ConfigurationDiag(number=self.in_force, failed=self._failed, message=self._message)

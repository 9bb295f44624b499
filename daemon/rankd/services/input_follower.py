"""How services other than the prioritizer learn what adapters have given: they look at the records once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rankd.config.configuration import Configuration
from rankd.store.adapter import InForce, in_force, inputs_revision
from rankd.store.database import Database

LOOK_EVERY_S = 1.0


class InputFollower:
    """Lays the inputs over the configuration as its files state it, and calls ``use`` when they have changed."""

    def __init__(self, stated: Configuration, database: Database, use: Callable[[InForce], Awaitable[None]]) -> None:
        self._stated = stated
        self._database = database
        self._use = use
        self._revision: int | None = None

    async def run(self) -> None:
        """For ever; nothing to do where no adapters are configured."""
        while self._stated.settings.adapters:
            await self.run_once()
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.Event().wait()

    async def run_once(self) -> None:
        """Look once."""
        revision = await self._database.read(lambda c: inputs_revision(c.exec_driver_sql))
        if revision != self._revision:
            found = await self._database.read_in_thread(lambda c: in_force(c.exec_driver_sql, self._stated))
            self._revision = revision
            await self._use(found)

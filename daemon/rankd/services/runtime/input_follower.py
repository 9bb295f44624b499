"""How services other than the prioritizer get the inputs of adapters: they read the records once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rankd.bus.liveness import Loops
from rankd.config.configuration import Configuration
from rankd.core.errors import Unavailable
from rankd.services.runtime.life import Patience
from rankd.store.engine.database import Database
from rankd.store.record.adapter import InForce, InputsRevision, in_force, inputs_revision

log = logging.getLogger("rankd.adapter")

LOOK_EVERY_S = 1.0
ROUND_S = 60.0


class InputFollower:
    """Applies the inputs to the configuration of the files, and calls ``use`` when they have changed."""

    def __init__(self, stated: Configuration, database: Database, use: Callable[[InForce], Awaitable[None]]) -> None:
        self._stated = stated
        self._database = database
        self._use = use
        self._revision: InputsRevision | None = None

    async def run(self, loops: Loops) -> None:
        """Look for changes until cancelled. Does nothing while no adapters are configured."""
        loop, patience = loops.add("inputs of adapters", ROUND_S), Patience("inputs of adapters", log)
        while True:
            loop.beat()
            try:
                if self._stated.settings.adapters or self._revision is None:
                    await self.run_once()
            except Unavailable as error:
                await patience.wait(error)
            else:
                patience.over()
                await asyncio.sleep(LOOK_EVERY_S)

    async def restate(self, stated: Configuration) -> None:
        """Apply the inputs to this configuration from now on, and use the result at once."""
        self._stated, self._revision = stated, None
        await self.run_once()

    async def run_once(self) -> None:
        """Look once for changed inputs."""
        stated = self._stated
        revision = await self._database.read(lambda c: inputs_revision(c.exec_driver_sql))
        if revision != self._revision:
            found = await self._database.read_in_thread(lambda c: in_force(c.exec_driver_sql, stated))
            if stated is self._stated:
                self._revision = revision
                await self._use(found)

"""Wakes nodes for which allocations wait: at once for new ones, then again until the node has requested them."""

from __future__ import annotations

import logging
import time

from rankd.bus.liveness import Loops
from rankd.core.errors import Unavailable
from rankd.core.model.delivery import Hints
from rankd.services.runtime.life import Patience, Wake
from rankd.services.scheduler.outbox import Outbox
from rankd.store.engine.database import Database
from rankd.store.record.delivery import waiting_nodes

log = logging.getLogger("rankd.scheduler")

ROUND_S = 60.0
LOOK_EVERY_S = 1.0


class NodeWakeUp:
    """Set :attr:`due` after a commit that may concern nodes. :meth:`run` then reads which nodes have to be woken."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self.due = Wake()
        self.due.set()
        self._hints = Hints()
        self._database = database
        self._outbox = outbox

    async def run(self, loops: Loops) -> None:
        """Wake nodes until cancelled."""
        loop, patience = loops.add("hints to nodes", ROUND_S), Patience("hints to nodes", log)
        while True:
            loop.beat()
            await self.due.wait(LOOK_EVERY_S)
            try:
                await self.run_once(time.monotonic())
            except Unavailable as error:
                await patience.wait(error)
            else:
                patience.over()

    async def run_once(self, now: float) -> list[str]:
        """Wake the nodes whose turn it is; ``now`` is monotonic. Returns their names.

        Raises:
            Unavailable: the database cannot be read.
        """
        waiting = await self._database.read(waiting_nodes)
        nodes = self._hints.due(waiting, now)
        if nodes:
            await self._outbox.wake_nodes(nodes)
        return nodes

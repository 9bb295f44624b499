"""Copies the write-ahead log into the database file while it grows."""

from __future__ import annotations

import asyncio
import logging

from rankd.bus.liveness import Loops
from rankd.core.errors import Unavailable
from rankd.services.runtime.life import Patience
from rankd.store.engine.database import CHECKPOINT_PAGES, Database

log = logging.getLogger("rankd.intake")

LONG_ROUND_S = 60.0
CHECKPOINT_EVERY_S = 0.01
"""A full pass writes a hundred megabytes within a second or two, and no process can write while they are copied."""
CHECKPOINT_IDLE_S = 0.1
"""Seconds until the next look at a log that has not grown."""
CHECKPOINT_AGAIN_S = 0.5
"""Seconds until the next try while a reader's open transaction keeps the log long; more tries would not help."""


async def run_checkpoints(database: Database, loops: Loops) -> None:
    """Checkpoint until cancelled."""
    loop = loops.add("checkpoints", LONG_ROUND_S)
    pages, patience = 0, Patience("checkpoints", log)
    while True:
        loop.beat()
        try:
            before, pages = pages, await database.checkpoint()
        except Unavailable as error:
            await patience.wait(error)
            continue
        patience.over()
        if pages >= CHECKPOINT_PAGES:
            await asyncio.sleep(CHECKPOINT_AGAIN_S)
        else:
            await asyncio.sleep(CHECKPOINT_IDLE_S if pages == before else CHECKPOINT_EVERY_S)

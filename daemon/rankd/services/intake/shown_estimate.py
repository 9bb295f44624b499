"""The estimates of starts that users were shown: kept in memory for a moment, then recorded together.

An estimate is a row, not an event, and nobody waits for it. If this process dies, those of the last second are lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import Unavailable
from rankd.core.model.job import State
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import Patience
from rankd.store.engine.database import Database
from rankd.store.engine.reading import Row
from rankd.store.record.forecast import Shown, note_shown
from rankd.wire.forecast_record import ASSUMES
from rankd.wire.subject import FORECAST_WANTED

log = logging.getLogger("rankd.intake")

EVERY_S = 1.0
MOST = 2_000
"""The most estimates that wait to be recorded. More of them within a second are not recorded."""


class ShownEstimates:
    """:meth:`note` takes an answer; :meth:`run` records what was noted, and asks for forecasts that are missing."""

    def __init__(self, database: Database, bus: Bus, role: Callable[[], str | None], clock: Clock) -> None:
        self._database = database
        self._bus = bus
        self._role = role
        self._clock = clock
        self._shown: dict[tuple[int, float], Shown] = {}
        self._is_wanted = False

    def note(self, answer: Row) -> Row:
        """Note what this answer says; returns it with its age."""
        now, made_at = self._clock(), answer["made_at"]
        if answer["early"] is not None and made_at is not None and len(self._shown) < MOST:
            key = (answer["id"], made_at)
            shown = Shown(answer["id"], answer["user"], made_at, now, answer["early"], answer["late"])
            self._shown.setdefault(key, shown)
        self._is_wanted |= answer["state"] == State.PENDING and answer["early"] is None and answer["unknown"] is None
        return answer | {"age_s": None if made_at is None else max(0.0, now - made_at), "assumes": ASSUMES}

    async def run(self) -> None:
        """Record once a second until cancelled."""
        loop, patience = self._bus.loops.add("shown estimates"), Patience("shown estimates", log)
        while True:
            loop.beat()
            try:
                await self.run_once()
            except Unavailable as error:
                await patience.wait(error)
            else:
                patience.over()
                await asyncio.sleep(EVERY_S)

    async def run_once(self) -> int:
        """Record what was noted; returns how many estimates are new."""
        if self._is_wanted:
            self._is_wanted = False
            with suppress(*LOST):  # the next forecast comes anyway
                await self._bus.client.publish(FORECAST_WANTED, b"")
        shown = list(self._shown.values())
        if not shown:
            return 0
        noted = await self._database.write(partial(note_shown, shown=shown), role=self._role(), brief=True)
        for one in shown:
            self._shown.pop((one.job, one.made_at), None)
        return noted

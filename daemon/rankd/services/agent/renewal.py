"""Newer credentials for the agent, in time. The file is replaced, and the next connection uses what is in it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from rankd.bus.connection import Bus
from rankd.bus.enrolment import renew
from rankd.core.errors import RankdError
from rankd.identity.credentials import read_credentials, write_private
from rankd.services.runtime.clock import Clock

log = logging.getLogger("rankd.agent")

LOOP = "renewal of credentials"
AGAIN_S = 60.0


class Renewal:
    """Replaces the credentials in a file after half of their time."""

    def __init__(self, bus: Bus, path: Path, clock: Clock) -> None:
        self._bus = bus
        self._path = path
        self._clock = clock
        self._complaint = ""

    async def run(self) -> None:
        """Look after the credentials until cancelled."""
        loop = self._bus.loops.add(LOOP)
        while True:
            rest_s = await self.run_once()
            loop.beat(rest_s)
            await asyncio.sleep(rest_s)

    async def run_once(self) -> float:
        """Renew them if it is time; returns after how many seconds to look again."""
        try:
            present = read_credentials(self._path)
            claims = present.claims()
            if claims.renew_at is None:
                return AGAIN_S
            if (early_s := claims.renew_at - self._clock()) > 0:
                return min(early_s, AGAIN_S)
            newer = await renew(self._bus, str(claims.role), claims.name, present.ca)
            await asyncio.to_thread(write_private, self._path, newer.credentials.text())
        except (RankdError, OSError) as error:
            self._complain(str(error))
            return AGAIN_S
        self._complaint = ""
        log.info("the credentials of '%s' are renewed", claims.name)
        return 0.0

    def _complain(self, why: str) -> None:
        if why != self._complaint:
            self._complaint = why
            log.warning("the credentials in %s can't be renewed: %s; trying again", self._path, why)

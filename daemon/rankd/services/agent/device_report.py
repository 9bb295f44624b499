"""Tells the intake what the agent sees of its devices: states at once, what jobs do every few minutes."""

from __future__ import annotations

import asyncio
import logging
from secrets import token_hex

from rankd.bus.connection import Bus
from rankd.bus.liveness import IDLE_S
from rankd.core.errors import RankdError
from rankd.core.model.device_report import DeviceUse
from rankd.services.agent.device_monitor import DeviceMonitor
from rankd.services.runtime.life import is_set
from rankd.wire.codec import encode
from rankd.wire.device import DeviceReport
from rankd.wire.message import ReportsTaken
from rankd.wire.subject import node_subject

log = logging.getLogger("rankd.agent")

LOOP = "reports about devices"
EVERY_S = 300.0
"""The pause between reports of what jobs do, if states don't change: each report costs the intake a write."""
GATHER_S = 1.0
"""Changes within this time go into one message: a driver that is loaded again changes all cards one after another."""
ASK_TIMEOUT_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class DeviceReporter:
    """One message at a time. What could not be reported is sent later, with the changes of the meantime."""

    def __init__(self, bus: Bus, node: str, instance: str, monitor: DeviceMonitor) -> None:
        self._bus = bus
        self._subject = node_subject(node, "device")
        self._instance = instance
        self._monitor = monitor
        self._unsent: list[DeviceUse] = []
        self._batch = ""
        """Of what is unsent. A report whose answer was lost may have been recorded."""
        self._wake = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S
        monitor.on_news = self._wake.set

    async def run(self, registered: asyncio.Event) -> None:
        """Report until cancelled, once the node is registered."""
        loop, waited_s = self._bus.loops.add(LOOP), 0.0
        await registered.wait()
        while True:
            loop.beat()
            if not await is_set(self._wake, IDLE_S) and (waited_s := waited_s + IDLE_S) < EVERY_S:
                continue
            await asyncio.sleep(GATHER_S)
            waited_s = 0.0
            if not await self.run_once():
                loop.beat(self._pause_s)
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
                self._wake.set()
            else:
                self._pause_s = FIRST_PAUSE_S

    async def run_once(self) -> bool:
        """Tell what there is to tell; returns whether that has succeeded."""
        self._wake.clear()
        notes = self._monitor.notes()
        if not self._unsent:
            self._unsent, self._batch = self._monitor.uses(), token_hex(8)
        if not notes and not self._unsent:
            return True
        message = DeviceReport(notes=notes, uses=self._unsent, instance=self._instance, batch=self._batch)
        try:
            await self._bus.request(self._subject, encode(message), ReportsTaken, timeout_s=ASK_TIMEOUT_S)
        except RankdError as error:
            log.log(self._bus.wait_level, "what is seen of the devices waits to be reported: %s", error.message)
            return False
        self._monitor.told(notes)
        self._unsent = []
        if self._monitor.has_ended_uses():
            self._wake.set()
        return True

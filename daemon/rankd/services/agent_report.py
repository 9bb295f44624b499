"""Reports on their way into the stream: in order per node, several to a message, sent until acknowledged.

While the broker is away a message is repeated with the same id, so the stream stores it once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

from rankd.bus.connection import Bus
from rankd.bus.liveness import IDLE_S, Loops
from rankd.core.errors import Unavailable
from rankd.services.runtime import is_set
from rankd.wire.codec import encode
from rankd.wire.message import Report, ReportMessage
from rankd.wire.subject import encode_name, node_subject

log = logging.getLogger("rankd.agent")

GATHER_S = 0.003
GATHER_PER_REPORT_S = 0.002
LONGEST_GATHER_S = 0.03
RECENT_S = 0.1
"""What comes soon after many others waits for more: under load, everybody behind the stream has less to do for each."""

RETRY_S = 0.2
MAX_PER_MESSAGE = 100  # of at most 9 kB each (two paths): below the broker's limit of a message, 1 MiB
IN_FLIGHT = 64

Acknowledged = Callable[[str, Sequence[Report]], None]


class RecentReports:
    """How many were published of late: each counts for less the longer ago it was."""

    def __init__(self) -> None:
        self._count = 0.0
        self._at = 0.0

    def add(self, published: int, now_s: float) -> None:
        """So many more, now."""
        self._count = self._count * math.exp((self._at - now_s) / RECENT_S) + published
        self._at = now_s

    def gather_s(self) -> float:
        """How long to wait for more.

        >>> recent = RecentReports()
        >>> recent.add(1, 100.0)
        >>> recent.gather_s()
        0.005
        >>> recent.add(200, 100.0)
        >>> recent.gather_s()
        0.03
        """
        return min(GATHER_S + GATHER_PER_REPORT_S * self._count, LONGEST_GATHER_S)


class Reporter:
    """Gathers reports and publishes them; tells ``on_acknowledged`` which are durable."""

    def __init__(self, bus: Bus) -> None:
        self.on_acknowledged: Acknowledged = lambda _node, _reports: None
        self._bus = bus
        self._waiting: dict[str, list[Report]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._recent = RecentReports()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self.unacknowledged = 0

    @property
    def loops(self) -> Loops:
        """Those of the agent's connection."""
        return self._bus.loops

    def add(self, node: str, report: Report) -> None:
        """Report this soon."""
        self._waiting.setdefault(node, []).append(report)
        self.unacknowledged += 1
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """For ever: a round, then a moment in which more may gather."""
        loop = self._bus.loops.add("reports")
        while True:
            loop.beat()
            if not await is_set(self._wake, IDLE_S):
                continue
            self._recent.add(await self.run_once(), time.monotonic())
            await asyncio.sleep(self._recent.gather_s())

    async def run_once(self) -> int:
        """Publish what has gathered; nodes side by side, the messages of one node one after the other; how many."""
        self._wake.clear()
        waiting, self._waiting = self._waiting, {}
        async with asyncio.TaskGroup() as group:
            for node, reports in waiting.items():
                group.create_task(self._publish_node(node, reports))
        if not self.unacknowledged:
            self._idle.set()
        return sum(map(len, waiting.values()))

    async def flushed(self) -> None:
        """Wait until everything is acknowledged."""
        await self._idle.wait()

    async def _publish_node(self, node: str, reports: list[Report]) -> None:
        async with self._slots:
            for first in range(0, len(reports), MAX_PER_MESSAGE):
                part = reports[first : first + MAX_PER_MESSAGE]
                await self._publish(node, ReportMessage(reports=part))
                self.unacknowledged -= len(part)
                self.on_acknowledged(node, part)

    async def _publish(self, node: str, message: ReportMessage) -> None:
        message_id = id_of(node, message)
        while True:
            try:
                await self._bus.publish_durably(node_subject(node, "report"), message, message_id)
            except Unavailable as error:
                log.log(self._bus.wait_level, "%d reports of %s wait: %s", len(message.reports), node, error.message)
                await asyncio.sleep(RETRY_S)
            else:
                return


def id_of(node: str, message: ReportMessage) -> str:
    """The same for the same reports, also after a restart of the agent; different for any other."""
    return f"{encode_name(node)}.{blake2b(encode(message), digest_size=16).hexdigest()}"

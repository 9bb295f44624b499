"""Sends reports to the intake: in order per node, several to a message, repeated until they are recorded."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.liveness import IDLE_S, Failure, Loops
from rankd.core.errors import RankdError
from rankd.core.model.node_holder import NODE_TAKEN
from rankd.core.session.step import StepEnd
from rankd.services.runtime.life import is_set
from rankd.wire.codec import encode
from rankd.wire.message import Report, ReportMessage, ReportsTaken
from rankd.wire.subject import node_subject

log = logging.getLogger("rankd.agent")

GATHER_S = 0.003
GATHER_PER_REPORT_S = 0.002
LONGEST_GATHER_S = 0.03
RECENT_S = 0.1
"""Many reports within this time make the next ones wait for more: fewer messages cost the intake less under load."""

ASK_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
UNREADABLE = "bad_request"
MAX_PER_MESSAGE = 100  # of at most 9 kB each (two paths): below the broker's limit of a message, 1 MiB
IN_FLIGHT = 64

Acknowledged = Callable[[str, Sequence[Report]], None]


class RecentReports:
    """How many reports were sent recently. Each one counts for less as time passes."""

    def __init__(self) -> None:
        self._count = 0.0
        self._at = 0.0

    def add(self, published: int, now_s: float) -> None:
        """Count this many more reports, sent at ``now_s``."""
        self._count = self._count * math.exp((self._at - now_s) / RECENT_S) + published
        self._at = now_s

    def gather_s(self) -> float:
        """Seconds to wait for more reports.

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
    """Gathers reports and sends them. Calls ``on_acknowledged`` with those that the intake has recorded."""

    def __init__(self, bus: Bus) -> None:
        self.on_acknowledged: Acknowledged = lambda _node, _reports: None
        self._bus = bus
        self._failure = Failure()
        bus.loops.reasons.append(self._failure.reason)
        self._waiting: dict[str, list[Report | StepEnd]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._recent = RecentReports()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self.unacknowledged = 0
        self.instance = ""
        """The id of the agent's state directory."""

    @property
    def is_connected(self) -> bool:
        """Whether the broker is there."""
        return self._bus.client.is_connected

    @property
    def loops(self) -> Loops:
        """The loops of the agent's connection."""
        return self._bus.loops

    def add(self, node: str, report: Report | StepEnd) -> None:
        """Send this report soon."""
        self._waiting.setdefault(node, []).append(report)
        self.unacknowledged += 1
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Send what has gathered, then wait a moment in which more may gather; repeat until cancelled."""
        loop = self._bus.loops.add("reports")
        while True:
            loop.beat()
            if not await is_set(self._wake, IDLE_S):
                continue
            self._recent.add(await self.run_once(), time.monotonic())
            await asyncio.sleep(self._recent.gather_s())

    async def run_once(self) -> int:
        """Send what has gathered; returns the number of reports.

        Nodes are handled concurrently. The messages of one node go one after the other.
        """
        self._wake.clear()
        waiting, self._waiting = self._waiting, {}
        async with asyncio.TaskGroup() as group:
            for node, reports in waiting.items():
                group.create_task(self._publish_node(node, reports))
        if not self.unacknowledged:
            self._idle.set()
        return sum(map(len, waiting.values()))

    async def flushed(self) -> None:
        """Wait until all reports are acknowledged."""
        await self._idle.wait()

    async def _publish_node(self, node: str, reports: list[Report | StepEnd]) -> None:
        async with self._slots:
            for first in range(0, len(reports), MAX_PER_MESSAGE):
                part = reports[first : first + MAX_PER_MESSAGE]
                jobs = [report for report in part if isinstance(report, Report)]
                steps = [report for report in part if isinstance(report, StepEnd)]
                await self._publish(node, ReportMessage(reports=jobs, steps=steps, instance=self.instance))
                self.unacknowledged -= len(part)
                self.on_acknowledged(node, jobs)

    async def _publish(self, node: str, message: ReportMessage) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._bus.request(
                    node_subject(node, "report"), encode(message), ReportsTaken, timeout_s=ASK_TIMEOUT_S
                )
            except RankdError as error:
                if error.code == UNREADABLE:
                    log.error("the intake can't read reports of %s, which are dropped: %s", node, error.message)  # noqa: TRY400
                    return
                is_taken = error.code == NODE_TAKEN  # the registration logs this, and what to do
                if not is_taken:
                    self._failure.note(f"the intake does not accept reports: {error.message}")
                log.log(
                    logging.DEBUG if is_taken else self._bus.wait_level,
                    "%d reports of %s wait: %s",
                    len(message.reports) + len(message.steps),
                    node,
                    error.message,
                )
            except msgspec.ValidationError:  # the stream of an older version has answered
                log.info("%d reports of %s wait for the new intake", len(message.reports), node)
            else:
                self._failure.over()
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

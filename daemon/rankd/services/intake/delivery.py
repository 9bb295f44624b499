"""The intake's side of deliveries: agents take allocations and report, by request; what nobody takes is taken back.

Both are answered once they are durable, and agents repeat them until then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rankd.bus.connection import Bus
from rankd.bus.endpoint import NodeHandler, Reply
from rankd.core.errors import Refused, RoleLost, Unavailable
from rankd.core.model.delivery import Waiting, is_away, is_overdue
from rankd.core.model.node_holder import NODE_TAKEN
from rankd.core.model.report import Report
from rankd.core.model.setting import NodeSettings
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.record.delivery import Ask, give, take_back, untaken
from rankd.store.record.node import of_instance
from rankd.store.record.report import take_reports
from rankd.wire.codec import decode_of_node
from rankd.wire.message import ReportMessage, ReportsTaken, Take, Taken
from rankd.wire.subject import node_pattern

log = logging.getLogger("rankd.intake")

NODES = "nodes"
"""Agents take turns with users, not each with all others."""
LOOK_EVERY_S = 1.0
ABSENT_S = 3.0
"""More than this between two looks: this process did not run."""


class Told(NamedTuple):
    """What an agent reports of its node."""

    node: str
    instance: str
    reports: Sequence[Report]


class Deliveries:
    """Answers agents, and watches over what they do not take. ``settings`` gives those in force."""

    def __init__(self, settings: Callable[[], NodeSettings], database: Database, bus: Bus, group: GroupCommit) -> None:
        self._settings = settings
        self._database = database
        self._bus = bus
        self._group = group
        self._listening_since = time.time()
        self._there_since: dict[str, float] = {}
        """When a node that has something to take last asked for it, or came back."""

    def verbs(self) -> dict[str, tuple[str, NodeHandler]]:
        """Where nodes ask, and who answers."""
        return {
            "node_take": (node_pattern("take"), self.take),
            "node_report": (node_pattern("report"), self.report),
        }

    async def take(self, node: str, payload: bytes) -> Reply:
        """What the node is to start and to end."""
        request = decode_of_node(payload, Take)
        self._there_since[node] = time.time()
        known = None if request.known is None else frozenset(request.known)
        ask = Ask(node=node, agent=request.agent, known=known, instance=request.instance)
        given = await self._group.do_together(self._give, ask, client=NODES)
        if given is None:
            message = f"agent '{request.agent}' does not represent node '{node}'; register again"
            raise Refused("unknown_node", message, "agent", status=404)
        return given

    def _give(self, connection: Connection, asks: Sequence[Ask]) -> list[Taken | None]:
        return give(connection, asks, self._settings().max_requeues, time.time())

    async def report(self, node: str, payload: bytes) -> Reply:
        """What happened on the node; about other nodes' allocations it says nothing."""
        message = decode_of_node(payload, ReportMessage)
        if not await self._record(Told(node, message.instance, message.reports)):
            text = f"another agent represents node '{node}' now; reports of instance {message.instance} do not count"
            raise Refused(NODE_TAKEN, text, "instance", status=409)
        return ReportsTaken(taken=len(message.reports))

    async def _record(self, told: Told) -> bool:
        """All together; if that fails, one by one, so that one that can't be taken does not hold up the others.

        False if another agent represents the node.
        """
        try:
            return await self._group.do_together(self._write, told, client=NODES, weight=len(told.reports))
        except (RoleLost, Unavailable):
            raise
        except Exception:
            if len(told.reports) > 1:
                return all([await self._record(told._replace(reports=[report])) for report in told.reports])
            log.exception("a report can't be taken and is dropped: %s", told)
            return True

    def _write(self, connection: Connection, parts: Sequence[Told]) -> list[bool]:
        counts = [bool(of_instance(connection, [told.node], told.instance)) for told in parts]
        own = [told for told, does_count in zip(parts, counts, strict=True) if does_count]
        together = [(told.node, report) for told in own for report in told.reports]
        take_reports(connection, together, self._settings().max_requeues, time.time())
        return counts

    async def run(self) -> None:
        """Look at what waits for its nodes, for ever. Time in which this process or the broker stood still is free."""
        loop = self._bus.loops.add("watch over deliveries")
        looked = time.time()
        while True:
            loop.beat()
            await asyncio.sleep(LOOK_EVERY_S)
            now = time.time()
            if not 0 <= now - looked < ABSENT_S:
                self._listening_since = now
            looked = now
            try:
                await self.run_once(now)
            except Unavailable as error:
                log.warning("allocations that nobody takes are not taken back yet: %s", error.message)

    async def run_once(self, now: float) -> None:
        """Take back what its nodes, which are there, did not take in time."""
        waiting = await self._database.read_at_once(untaken)
        overdue = [oldest for oldest in waiting if self._is_overdue(oldest, now)]
        self._there_since = {one.node: self._there_since.get(one.node, 0.0) for one in waiting}
        if overdue:
            await self._take_back(overdue, now)

    def _is_overdue(self, oldest: Waiting, now: float) -> bool:
        settings = self._settings()
        connected_at = now - self._bus.connected_for_s()
        if oldest.present and is_away(oldest.heard_at, settings.heartbeat_s, now):
            self._there_since[oldest.node] = now
        since = max(self._listening_since, connected_at, self._there_since.get(oldest.node, 0.0))
        return is_overdue(oldest, since, settings.take_timeout_s, now)

    async def _take_back(self, overdue: Sequence[Waiting], now: float) -> None:
        settings = self._settings()
        reason = (
            f"did not take allocation {{allocation}} (job {{job}}) within {settings.take_timeout_s:g} s, though its"
            " agent is alive; look at the agent's log, restart it, then resume the node"
        )
        n_back = await self._group.do(lambda c: take_back(c, overdue, reason, settings.max_requeues, now))
        if n_back:
            names = ", ".join(oldest.node for oldest in overdue[:10])
            log.error("%d allocations were not taken by %s: drained, and the jobs wait again", n_back, names)

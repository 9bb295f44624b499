"""The intake's side of deliveries: agents request allocations and report; allocations not requested are withdrawn.

A request is answered once its effect is durable, and agents repeat it until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rankd.bus.connection import Bus
from rankd.bus.endpoint import NodeHandler, Reply
from rankd.core.errors import Refused, RoleLost, Unavailable
from rankd.core.model.delivery import Waiting, is_away, is_overdue
from rankd.core.model.node_holder import NODE_TAKEN
from rankd.core.model.report import Report
from rankd.core.model.service_setting import NodeSettings
from rankd.core.session.step import StepEnd
from rankd.services.intake.foreign_report import ForeignReports
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import GroupCommit, News
from rankd.store.record.delivery import Ask, Given, give, take_back, untaken
from rankd.store.record.job_step import take_step_ends
from rankd.store.record.node import of_instance
from rankd.store.record.report import take_reports
from rankd.wire.codec import decode_of_node
from rankd.wire.message import ReportMessage, ReportsTaken, Take
from rankd.wire.subject import node_pattern

log = logging.getLogger("rankd.intake")

NODES = "nodes"
"""All agents together count as one client when users and agents take turns."""
LOOK_EVERY_S = 1.0
ABSENT_S = 3.0
"""If two looks are further apart, this process was stopped in between."""


def _news_of(given: Given) -> News:
    """That an agent has taken allocations, the others need not know."""
    return News.EVERYBODY if given.has_changed else News.NOBODY


class AgentReports(NamedTuple):
    """The reports of an agent about its node, and ends of tasks of steps there."""

    node: str
    instance: str
    reports: Sequence[Report]
    steps: Sequence[StepEnd] = ()

    @property
    def weight(self) -> int:
        """How many there are."""
        return len(self.reports) + len(self.steps)

    def each(self) -> list[AgentReports]:
        """One by one, in the order in which they count."""
        steps = [self._replace(reports=(), steps=[step]) for step in self.steps]
        return [*steps, *(self._replace(reports=[report], steps=()) for report in self.reports)]


class Deliveries:
    """Answers agents, and withdraws allocations that they do not request. ``settings`` returns those in force."""

    def __init__(
        self, settings: Callable[[], NodeSettings], database: Database, bus: Bus, group: GroupCommit, clock: Clock
    ) -> None:
        self._settings = settings
        self._database = database
        self._bus = bus
        self._group = group
        self._clock = clock
        self._listening_since = clock()
        self._hears = True
        self.foreign = ForeignReports()
        self._there_since: dict[str, float] = {}
        """When a node that has allocations waiting last requested them, or came back."""

    def verbs(self) -> dict[str, tuple[str, NodeHandler]]:
        """The subjects that nodes send to, and their handlers."""
        return {
            "node_take": (node_pattern("take"), self.take),
            "node_report": (node_pattern("report"), self.report),
        }

    async def take(self, node: str, payload: bytes) -> Reply:
        """Answer with the allocations that the node has to start and to end."""
        request = decode_of_node(payload, Take)
        self._there_since[node] = self._clock()
        known = None if request.known is None else frozenset(request.known)
        ask = Ask(
            node=node,
            agent=request.agent,
            known=known,
            instance=request.instance,
            carried_out=request.carried_out,
        )
        given = await self._group.do_together(self._give, ask, client=NODES, news=_news_of)
        if given.answer is None:
            message = f"agent '{request.agent}' does not represent node '{node}'; register again"
            raise Refused("unknown_node", message, "agent", status=404)
        return given.answer

    def _give(self, connection: Connection, asks: Sequence[Ask]) -> list[Given]:
        return give(connection, asks, self._settings().max_requeues, self._clock())

    async def report(self, node: str, payload: bytes) -> Reply:
        """Record a node's reports. Reports about other nodes' allocations have no effect."""
        message = decode_of_node(payload, ReportMessage)
        foreign = await self._record(AgentReports(node, message.instance, message.reports, message.steps))
        if foreign is None:
            text = f"another agent represents node '{node}' now; reports of instance {message.instance} do not count"
            raise Refused(NODE_TAKEN, text, "instance", status=409)
        if foreign:
            self.foreign.note(node, foreign)
        return ReportsTaken(taken=len(message.reports))

    async def _record(self, sent: AgentReports) -> list[int] | None:
        """Record all reports together. If that fails, record them one by one, so that a bad one delays no other.

        Returns the allocations that the node was never given; None if another agent represents the node.
        """
        try:
            news = News.EVERYBODY if sent.reports else News.NOBODY  # nobody waits for the ends of steps
            return await self._group.do_together(self._write, sent, client=NODES, news=news, weight=sent.weight)
        except (RoleLost, Unavailable):
            raise
        except Exception:
            if sent.weight > 1:
                each = [await self._record(one) for one in sent.each()]
                return None if None in each else [foreign for found in each for foreign in found or ()]
            log.exception("a report can't be recorded and is dropped: %s", sent)
            return []

    def _write(self, connection: Connection, parts: Sequence[AgentReports]) -> list[list[int] | None]:
        counts = [bool(of_instance(connection, [sent.node], sent.instance)) for sent in parts]
        own = [sent for sent, does_count in zip(parts, counts, strict=True) if does_count]
        now = self._clock()
        take_step_ends(connection, [(sent.node, step) for sent in own for step in sent.steps], now)
        together = [(sent.node, report) for sent in own for report in sent.reports]
        found = set(take_reports(connection, together, self._settings().max_requeues, now))
        return [
            [one.allocation for one in sent.reports if (sent.node, one.allocation) in found] if does_count else None
            for sent, does_count in zip(parts, counts, strict=True)
        ]

    def hear(self, is_listening: bool) -> None:
        """Whether nodes can ask this process: what they did not request while they could not is not overdue."""
        self._hears = is_listening
        self._listening_since = self._clock()

    async def run(self) -> None:
        """Look for overdue allocations until cancelled. Leaves out times when this process or the broker stopped.

        The nodes ask this process from the beginning of this loop on.
        """
        loop = self._bus.loops.add("watch over deliveries")
        self._listening_since = self._clock()
        looked = self._clock()
        while True:
            loop.beat()
            await asyncio.sleep(LOOK_EVERY_S)
            now = self._clock()
            if not 0 <= now - looked < ABSENT_S:
                self._listening_since = now
            looked = now
            try:
                await self.run_once(now)
            except Unavailable as error:
                log.warning("overdue allocations are not withdrawn from their nodes yet: %s", error.message)

    async def run_once(self, now: float) -> None:
        """Withdraw allocations that nodes with a living agent did not request in time."""
        if not self._hears:
            return
        waiting = await self._database.read(untaken)
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

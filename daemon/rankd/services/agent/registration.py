"""Making the agent's nodes known to the intake, and keeping them known."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from rankd.bus.connection import Bus
from rankd.core.errors import RankdError
from rankd.core.model.node_holder import NODE_NOT_KNOWN, NODE_TAKEN
from rankd.wire.codec import encode
from rankd.wire.message import LONGEST_UNABLE, Heartbeat, NodeRegistered, NodeRegistration
from rankd.wire.subject import node_subject

log = logging.getLogger("rankd.agent")

LOOP = "registration"
RETRY_S = 0.3
NOT_PERMITTED = "not_permitted"
TAKEN_RETRY_S = 2.0
"""The pause after a refusal because another agent represents the node, or because the site does not know it."""
ASK_TIMEOUT_S = 5.0
LEAVE_TIMEOUT_S = 1.0
REGISTERING_BOUND_S = 120.0
SIDE_BY_SIDE = 32
AUDIT_EVERY_S = 300.0


class Registration:
    """Registers all nodes until the intake answers, then sends single heartbeats for all of them together.

    It registers again from time to time. ``instance`` is the id of the agent's state directory. ``on_registered`` gets
    each node's name and the allocations that it has to end; the agent then also compares its allocations with the
    intake's. ``unable`` returns why the nodes can't run jobs, or None; ``health``, why their
    health check fails.
    """

    def __init__(
        self,
        bus: Bus,
        nodes: Sequence[str],
        instance: str,
        describe: Callable[[str], NodeRegistration],
        on_answer: Callable[[NodeRegistered], None],
        on_registered: Callable[[str, Sequence[int]], None],
        unable: Callable[[], str | None] = lambda: None,
        health: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.done = asyncio.Event()
        self.refusal: RankdError | None = None
        """Why the nodes can't join until somebody acts; None if they can."""
        self._bus = bus
        self._nodes = nodes
        self._instance = instance
        self._describe = describe
        self._on_answer = on_answer
        self._on_registered = on_registered
        self._unable = unable
        self._health = health
        self._registered_at = 0.0
        self._connection = -1
        self._complaint = ""
        self._noted = set[str]()
        self._key = secrets.token_hex(16) if len(nodes) > 1 else ""
        """Proves to the intake that this agent registered the nodes, so that one message may represent them all."""
        self._heartbeat_s = RETRY_S

    async def run(self) -> None:
        """Register whenever the intake does not know this agent or the connection is new; otherwise send heartbeats."""
        loop = self._bus.loops.add(LOOP, REGISTERING_BOUND_S)
        while True:
            delay_s = await self.run_once()
            loop.beat(delay_s)
            await asyncio.sleep(delay_s)

    async def run_once(self) -> float:
        """One exchange; returns after how many seconds the next one is due.

        Raises:
            Refused: ``not_permitted``: the broker does not let this agent represent the node.
        """
        connection, now = self._bus.client.stats["reconnects"], time.monotonic()
        try:
            if self._connection != connection or now - self._registered_at > AUDIT_EVERY_S:
                answer = await self._register_all()
                self._connection, self._registered_at = connection, now
            else:
                answer = await self._heartbeat()
        except RankdError as error:
            if error.code == NOT_PERMITTED and not self.done.is_set():
                raise  # the broker never lets this agent speak for this node: no repetition helps
            return self._retry(error)
        self._complaint, self.refusal = "", None
        self._on_answer(answer)
        self._heartbeat_s = answer.heartbeat_s
        self.done.set()
        return answer.heartbeat_s

    def again(self) -> None:
        """Register with the next exchange, because the intake does not know this agent."""
        self._connection = -1

    async def stay_away(self) -> None:
        """Repeat until cancelled, at the interval of the heartbeats, that the nodes take no more allocations.

        The intake measures the silence of a node with running jobs from the last of these messages.
        """
        loop = self._bus.loops.add(LOOP, REGISTERING_BOUND_S)
        while True:
            await self.leave()
            loop.beat(self._heartbeat_s)
            await asyncio.sleep(self._heartbeat_s)

    async def leave(self) -> None:
        """Report that the nodes take no more allocations. If this is lost, the intake learns it from their silence."""
        if not self.done.is_set():
            return
        try:
            await self._ask(node_subject(self._nodes[0], "leave"), self._all_nodes(), LEAVE_TIMEOUT_S)
        except RankdError as error:
            log.log(self._bus.wait_level, "the intake could not be notified that this agent leaves: %s", error.message)

    def _retry(self, error: RankdError) -> float:
        if error.code == "unknown_node":
            self._connection = -1
            return 0
        is_taken = error.code in (NODE_TAKEN, NODE_NOT_KNOWN)
        if is_taken:
            self.refusal = error
        complaint = error.code if is_taken else error.message  # that message has a time, so it differs each time
        if complaint != self._complaint:
            self._complaint = complaint
            log.warning("%s; trying again", error.message)
        return TAKEN_RETRY_S if is_taken else RETRY_S

    async def _register_all(self) -> NodeRegistered:
        answers: list[NodeRegistered] = []
        for first in range(0, len(self._nodes), SIDE_BY_SIDE):
            part = self._nodes[first : first + SIDE_BY_SIDE]
            answers += await _all(self._register(node) for node in part)
        log.info("registered %s", self._nodes[0] if len(self._nodes) == 1 else f"{len(self._nodes)} nodes")
        return answers[-1]

    async def _register(self, node: str) -> NodeRegistered:
        registration = msgspec.structs.replace(self._describe(node), key=self._key, instance=self._instance)
        answer = await self._ask(node_subject(node, "register"), registration)
        self._on_registered(node, answer.end)
        for note in answer.notes:
            if note not in self._noted:
                self._noted.add(note)
                log.warning("%s", note)
        return answer

    async def _heartbeat(self) -> NodeRegistered:
        unable = self._unable()
        told = {"unable": unable[:LONGEST_UNABLE] if unable else None, "health": self._health()}
        beat = msgspec.structs.replace(self._all_nodes(), **told)
        return await self._ask(node_subject(self._nodes[0], "heartbeat"), beat)

    def _all_nodes(self) -> Heartbeat:
        return Heartbeat(nodes=list(self._nodes), key=self._key, instance=self._instance)

    async def _ask(self, subject: str, message: msgspec.Struct, timeout_s: float = ASK_TIMEOUT_S) -> NodeRegistered:
        return await self._bus.request(subject, encode(message), NodeRegistered, timeout_s=timeout_s)


async def _all(requests: Iterable[Coroutine[Any, Any, NodeRegistered]]) -> list[NodeRegistered]:
    """All answers, or the first error. Waits for every request first, so that none continues unobserved."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, NodeRegistered)]

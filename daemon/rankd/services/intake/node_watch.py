"""Requests of nodes to the intake, and the watch for nodes that fall silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.endpoint import NodeHandler, Reply
from rankd.core.admission.known_node import KnownNodes
from rankd.core.admission.node_check import check_labels, check_name, check_node_name, check_running, node_capacity
from rankd.core.admission.offered import Offered
from rankd.core.errors import Refused, Unavailable
from rankd.core.model.device import with_failed
from rankd.core.model.node import Node, NodeState
from rankd.core.model.node_holder import Agent, is_taken, refusal
from rankd.core.model.report import Report
from rankd.core.model.service_setting import NodeSettings
from rankd.core.model.setting import Settings
from rankd.core.printable import printable
from rankd.services.intake.owned_nodes import Complaints, OwnedNodes
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import GroupCommit, News
from rankd.store.record.delivery import waiting_nodes
from rankd.store.record.device_note import listed_devices
from rankd.store.record.node import (
    holder_of,
    is_noted,
    note_heartbeat,
    of_instance,
    open_allocations_of,
    record_node_event,
    register_node,
    set_state,
    silent_nodes,
    strays,
    take_down,
)
from rankd.store.record.node_action import drain_undrained, judge_health, to_judge, undrained
from rankd.store.record.report import take_reports
from rankd.wire.codec import decode_of_node
from rankd.wire.message import Heartbeat, NodeHooks, NodeRegistered, NodeRegistration
from rankd.wire.subject import node_pattern

log = logging.getLogger("rankd.intake")

ACTOR = "intake"
BOUNDED = "bounded"
"""The event of a node that counts with less than it offers."""
LOOK_EVERY_S = 1.0
ABSENT_S = 3.0
"""If two looks are further apart, this process was stopped in between."""


class NodeWatch:
    """Registrations, heartbeats, and nodes that fall silent."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        bus: Bus,
        group: GroupCommit,
        clock: Clock,
    ) -> None:
        self._settings = settings.node
        self._outputs_s, self._orphan_s = settings.retention.outputs_s, settings.sessions.orphan_s
        self._cluster = settings.site.name
        self._known, self._limits = settings.nodes.known, KnownNodes(settings.nodes.known)
        self._again: set[str] | None = set() if self._known else None
        """Nodes that have registered under what is known now; None: it was never asked. The others have to."""
        self.on_types: Callable[[Iterable[str]], None] = lambda _types: None
        """Called with the resource types of each node that registers."""
        self.offered = Offered()
        self._owned = OwnedNodes()
        self._complaints = Complaints()
        self._database = database
        self._bus = bus
        self._group = group
        self._clock = clock
        self._since = clock()
        """The time from which the silence of nodes counts."""
        self._hears = True

    def start(self, nodes: Iterable[Node]) -> None:
        """Learn what these nodes offer, which have registered before."""
        for node in nodes:
            whole = with_failed(node.capacity, node.devices)
            self.offered.learn(node.name, node.partition, whole, node.labels, node.devices)
            self.on_types(node.capacity)

    def begin(self) -> None:
        """The nodes send to this process from now on: silence before does not count."""
        self._since = self._clock()

    def hear(self, is_listening: bool) -> None:
        """Whether this process listens: while it does not, and before it does again, silence does not count."""
        self._hears = is_listening
        self.begin()

    def use(self, settings: Settings) -> None:
        """Use other settings. Agents get them with the answer to their next heartbeat, sent at the former interval."""
        self._outputs_s, self._orphan_s = settings.retention.outputs_s, settings.sessions.orphan_s
        self._cluster = settings.site.name
        if settings.nodes.known != self._known:
            self._known, self._limits, self._again = settings.nodes.known, KnownNodes(settings.nodes.known), set()
        if settings.node != self._settings:
            self._since = max(self._since, self._clock() + self._settings.heartbeat_s)
            self._settings = settings.node

    def verbs(self) -> dict[str, tuple[str, NodeHandler]]:
        """The subjects that nodes send to, and their handlers."""
        return {
            "node_register": (node_pattern("register"), self.register),
            "node_heartbeat": (node_pattern("heartbeat"), self.heartbeat),
            "node_leave": (node_pattern("leave"), self.leave),
        }

    async def register(self, node: str, payload: bytes) -> Reply:
        """Register a node with its resources; the answer lists the allocations that it has to end."""
        registration = decode_of_node(payload, NodeRegistration)
        try:
            _checked(node, registration)
            bounded = self._limits.bounded(node, registration.resources, registration.devices)
            capacity = node_capacity(bounded.resources, bounded.devices)
            counted = msgspec.structs.replace(registration, resources=bounded.resources, devices=list(bounded.devices))
            answer = await self._registered_now(node, counted, bounded.cuts)
        except Refused as error:
            self._complaints.note(node, registration.instance, error)
            raise
        self._complaints.forget(node, registration.instance)
        self._owned.take(node, registration.key)
        if self._again is not None:
            self._again.add(node)
        own = with_failed(capacity, bounded.devices)
        present = await self._database.read(lambda c: listed_devices(c, node)) if bounded.devices else ()
        self.offered.learn(node, registration.partition, own, registration.labels, present)
        return answer

    async def _registered_now(self, node: str, registration: NodeRegistration, cuts: str) -> NodeRegistered:
        def work(connection: Connection) -> list[int] | Refused:
            if (refused := self._taken(connection, node, registration)) is not None:
                return refused
            register_node(connection, node, registration, self._clock())
            if cuts and not is_noted(connection, node, BOUNDED, cuts):
                record_node_event(connection, node, BOUNDED, self._clock(), ACTOR, cuts)
            return strays(connection, node, registration.running)

        # also checked before: a refused agent asks repeatedly, and every commit is announced
        refused = await self._database.read(lambda connection: self._taken(connection, node, registration))
        if refused is not None:
            raise refused
        # before the commit: a user who hears that the node has joined may at once submit a job for what it has
        self.on_types(node_capacity(registration.resources, registration.devices))
        answer = await self._group.do(work)
        if isinstance(answer, Refused):
            raise answer
        note = f"node '{node}' counts with less than it offers, as [nodes] known says: {cuts}" if cuts else ""
        return self._registered(end=answer, notes=[note] if note else [])

    def _taken(self, connection: Connection, node: str, registration: NodeRegistration) -> Refused | None:
        """The refusal, if the agent may not represent the node; None if it may."""
        now, limit_s, holder = self._clock(), self._settings.lost_after_s, holder_of(connection, node)
        claimant = Agent(name=registration.agent, instance=registration.instance)
        if holder is None or not is_taken(holder, claimant, now, limit_s, listened=self.has_listened(now)):
            return None
        return refusal(node, holder, limit_s)

    async def heartbeat(self, node: str, payload: bytes) -> Reply:
        """Record an agent's heartbeat for its nodes. The error for unknown nodes asks the agent to register them."""
        beat = decode_of_node(payload, Heartbeat)
        own, others = self._owned.split(node, beat)
        if self._again is not None:  # they have to register again, under what is known now
            others += [name for name in own if name not in self._again]
            own = [name for name in own if name in self._again]
        work = partial(_beat, nodes=own, instance=beat.instance, now=self._clock())
        not_known, waiting = await self._group.do(work, news=News.NOBODY)
        if beat.unable:
            gone = frozenset(not_known)  # also nodes that another instance of the agent represents
            await self._drain([name for name in own if name not in gone], beat.unable)
        if beat.health is not None:
            await self._judge([name for name in own if name not in not_known], beat.health)
        unknown = [*others, *not_known]
        if unknown:
            text = f"not registered: {', '.join(unknown[:10])}; register again"
            raise Refused("unknown_node", text, "nodes", status=404)
        return self._registered(waiting=waiting)

    async def _drain(self, nodes: Sequence[str], unable: str) -> None:
        """Drain nodes whose agent can't run jobs. They get no jobs until an administrator resumes them."""
        if not await self._database.read(lambda connection: undrained(connection, nodes)):
            return
        reason = f"its agent can run no jobs: {unable}; fix that, then resume the node"
        if drained := await self._group.do(lambda c: drain_undrained(c, nodes, ACTOR, reason, self._clock())):
            log.error("drained %s: %s", ", ".join(drained[:10]), reason)

    async def _judge(self, nodes: Sequence[str], failure: str) -> None:
        """Drain nodes whose health check fails; resume those that only their health check has drained."""
        if not await self._database.read(lambda connection: to_judge(connection, nodes, failure)):
            return
        if changed := await self._group.do(lambda c: judge_health(c, nodes, failure, self._clock())):
            did = (
                f"drains, since its health check fails: {failure}"
                if failure
                else "takes jobs again, says its health check"
            )
            log.warning("node %s %s", ", ".join(changed[:10]), printable(did))

    async def leave(self, node: str, payload: bytes) -> Reply:
        """Record that an agent stops: its nodes take no more jobs."""
        message = decode_of_node(payload, Heartbeat)
        own, _ = self._owned.split(node, message)

        def work(connection: Connection) -> None:
            take_down(connection, of_instance(connection, own, message.instance), self._clock())

        await self._group.do(work)
        return self._registered()

    def _registered(
        self, end: Sequence[int] = (), waiting: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> NodeRegistered:
        return NodeRegistered(
            heartbeat_s=self._settings.heartbeat_s,
            grace_s=self._settings.grace_s,
            max_processes=self._settings.max_processes,
            outputs_s=self._outputs_s,
            orphan_s=self._orphan_s,
            cluster=self._cluster,
            hooks=_hooks(self._settings),
            end=list(end),
            waiting=list(waiting),
            notes=list(notes),
        )

    async def run(self) -> None:
        """Declare nodes lost that have been silent for too long.

        Silence counts only while the broker was connected and this process was listening. It does not count after this
        process was suspended, or after the clock was set.
        """
        looked = self._clock()
        loop = self._bus.loops.add("watch over nodes")
        while True:
            loop.beat()
            await asyncio.sleep(LOOK_EVERY_S)
            now = self._clock()
            if not 0 <= now - looked < ABSENT_S:
                self._since = now
            looked = now
            if self.has_listened(now):
                await self._give_up(now)

    def has_listened(self, now: float) -> bool:
        """Whether the intake has listened long enough for silence to count."""
        return self._hears and min(self._bus.connected_for_s(), now - self._since) >= self._settings.lost_after_s

    async def _give_up(self, now: float) -> None:
        limit_s, requeues = self._settings.lost_after_s, self._settings.max_requeues
        try:
            if await self._database.read(lambda connection: silent_nodes(connection, now, limit_s)):
                await self._group.do(lambda connection: lose_nodes(connection, now, limit_s, requeues))
        except Unavailable as error:
            log.warning("silent nodes are not declared lost yet: %s", error.message)


def _hooks(settings: NodeSettings) -> NodeHooks | None:
    if not (settings.prolog or settings.epilog or settings.health_check):
        return None
    return NodeHooks(
        prolog=settings.prolog,
        epilog=settings.epilog,
        timeout_s=settings.hook_timeout_s,
        health_check=settings.health_check,
        health_check_period_s=settings.health_check_period_s,
    )


def _checked(node: str, registration: NodeRegistration) -> None:
    """Check that a registration is within the bounds.

    Raises:
        Refused: ``too_many``, ``bad_name``, ``bad_quantity``, ``bad_devices``, ``bad_label``.
    """
    check_node_name(node)
    for field, name in (("partition", registration.partition), ("agent", registration.agent)):
        check_name(name, field)
    check_labels(registration.labels)
    check_running(len(registration.running))
    node_capacity(registration.resources, registration.devices)


def _beat(connection: Connection, nodes: Sequence[str], instance: str, now: float) -> tuple[list[str], list[str]]:
    """Record a heartbeat; returns the nodes that are not this agent's, and those with allocations waiting."""
    own = of_instance(connection, nodes, instance)
    waiting = waiting_nodes(connection, own)
    foreign = [] if len(own) == len(nodes) else sorted(set(nodes).difference(own))
    return [*foreign, *note_heartbeat(connection, own, now)], [node for node in own if node in waiting]


def lose_nodes(connection: Connection, now: float, limit_s: float, max_requeues: int) -> None:
    """Declare silent nodes lost, with their jobs. The jobs are requeued if they may be."""
    for node in silent_nodes(connection, now, limit_s):
        log.warning("node %s has been silent for %.0f s: lost", node, limit_s)
        set_state(connection, node, NodeState.LOST, now, ACTOR)
        reports = [
            (node, Report(allocation=allocation, job=job, kind="ended", at=now, cause="node_lost"))
            for allocation, job in open_allocations_of(connection, node)
        ]
        take_reports(connection, reports, max_requeues, now)

"""The scheduler: one cycle per trigger, on the newest committed generation, never waiting for a new one.

Triggers are new jobs in a generation, ended jobs, changed nodes; a generation without new jobs is none. What
arrives during a cycle makes one more cycle. Decisions are ``core.placement``; allocations are committed first.
The records then say which nodes to tell that something waits for them, until they have taken it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rankd.bus.connection import LOST, STREAM_BYTES, Bus
from rankd.bus.diag_request import answer_diag
from rankd.bus.health import answer_health
from rankd.bus.liveness import Loop
from rankd.bus.stream import ensure_streams
from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts, load_node_sorts
from rankd.core.errors import Unavailable
from rankd.core.model.delivery import Hints
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.mirror.reason_rows import ReasonRows
from rankd.services.runtime.configuration_follower import ConfigurationFollower, Prepared
from rankd.services.runtime.input_follower import InputFollower
from rankd.services.runtime.life import Patience, Wake, announce, probe, run_until, stay_alive, unless
from rankd.services.runtime.rest import rest
from rankd.services.runtime.stated import read_stated, settled
from rankd.services.runtime.statistic import SchedulerStatistic
from rankd.services.scheduler.scheduling_source import RESERVED, SchedulingSource
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.url import open_database
from rankd.store.record.adapter import InForce
from rankd.store.record.allocation import (
    NewAllocation,
    ReasonRow,
    ReservationRow,
    commit_allocations,
    last_cycle,
    save_reasons,
    save_reservations,
)
from rankd.store.record.catalog import read_catalog
from rankd.store.record.delivery import waiting_nodes
from rankd.wire.diag import SchedulerDiag
from rankd.wire.message import SchedulerEvent, Waits
from rankd.wire.subject import EVENT_RANKING, EVENT_SCHEDULER, WAKE, node_subject

log = logging.getLogger("rankd.scheduler")

ROLE = "scheduler"
RETRY = "retry"
CYCLE_BOUND_S = 120.0
LONG_ROUND_S = 60.0
LOOK_EVERY_S = 1.0
"""Hints may be lost; this is how long it then takes until the records are looked at."""


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are."""

    nats: str
    db: str
    config: Path
    stream_bytes: int = STREAM_BYTES


async def run(options: SchedulerOptions, stop: asyncio.Event) -> None:
    """Schedule until ``stop``."""
    async with AsyncExitStack() as stack:
        scheduler = await unless(stop, _start(options, stack))
        if scheduler is not None:
            log.info("ready")
            loops = scheduler.bus.loops
            await run_until(
                stop,
                scheduler.bus.supervise(),
                stay_alive(scheduler.database, ROLE, loops),
                scheduler.run(),
                scheduler.hint_for_ever(),
                scheduler.inputs.run(loops),
                scheduler.follower.run(loops),
            )


async def _start(options: SchedulerOptions, stack: AsyncExitStack) -> Scheduler:
    database = await stack.enter_async_context(open_database(options.db))
    stated = await read_stated(database, options.config)
    bus = await stack.enter_async_context(Bus(options.nats, ROLE, connect_timeout_s=None))
    bus.stream_bytes = options.stream_bytes
    bus.loops.reasons.append(database.trouble)
    await database.take_role(ROLE, time.time())
    (number, configuration), catalog = await settled(database, ROLE, stated, options.config)
    await ensure_streams(bus)
    scheduler = Scheduler(configuration, SchedulingSource(configuration, catalog), database, bus)
    scheduler.follower.start_from(number)
    await scheduler.follower.listen(bus)
    await scheduler.wake.listen(bus, WAKE, EVENT_RANKING, besides=ROLE)
    healthy = partial(probe, database, bus)
    await answer_health(bus, ROLE, healthy)
    await answer_diag(bus, ROLE, healthy, lambda: scheduler.diag(time.time()), scheduler.statistic.reset)
    return scheduler


class _Parts(NamedTuple):
    """A configuration, and the policies of sorting nodes that it names."""

    configuration: Configuration
    policies: dict[str, NodeSortPolicy]


def _parts(configuration: Configuration) -> _Parts:
    """What cycles need from a configuration.

    Raises:
        ConfigurationError: a policy cannot be loaded.
    """
    load_application_sorts(configuration.partitions)
    return _Parts(configuration, load_node_sorts(configuration.partitions))


class Scheduler:
    """One instance; :meth:`run_once` looks, and runs a cycle if there is a trigger."""

    def __init__(self, configuration: Configuration, source: SchedulingSource, database: Database, bus: Bus) -> None:
        self.wake = Wake()
        self._to_hint = Wake()
        self._hints = Hints()
        self._source = source
        self.database = database
        self.bus = bus
        self._cycle: int | None = None
        self._last: _Decision | None = None
        self._prepared = 0
        self._reasons = ReasonRows(source.pending.known_kinds)
        self._next_start_at = math.inf
        self._said_stale = False
        self.statistic = SchedulerStatistic()
        self.inputs = InputFollower(configuration, database, self._use_inputs)
        self._policies = load_node_sorts(configuration.partitions)
        self.follower = ConfigurationFollower(database, _parts, self.wake.set)

    async def _use_configuration(self, new: Prepared[_Parts]) -> None:
        """Between two cycles. If queues, limits or the settings of cycles have changed, everything is read again."""
        configuration, policies = new.parts
        catalog = await self.database.read(read_catalog)
        source = self._source
        if not source.configure(configuration):
            self._source = SchedulingSource(configuration, catalog)
            self._source.staleness = source.staleness
            self._reasons, self._prepared = ReasonRows(self._source.pending.known_kinds), 0
        self._policies = policies
        await self.inputs.restate(configuration)

    async def _use_inputs(self, found: InForce) -> None:
        """Adapters have given something else: what usage costs may be it."""
        ids = (await self.database.read(read_catalog)).qos
        self._source.use_qos(found.configuration.settings.qos, ids)

    async def run(self) -> None:
        """Look whenever woken, and when a reservation's time has come."""
        loop, patience = self.bus.loops.add("cycles", CYCLE_BOUND_S), Patience("cycles", log)
        while True:
            loop.beat()
            try:
                await self._look(loop)
            except Unavailable as error:
                self._source.triggers.add(RETRY)
                await patience.wait(error)
            else:
                patience.over()

    async def _look(self, loop: Loop) -> None:
        now = time.time()
        begun, known = time.monotonic(), self._source.revision
        await self.run_once(now)
        await rest(self._source.revision - known, time.monotonic() - begun)
        if self._source.has_staged_work:
            await self._prepare_staged(loop)
        elif not self._source.triggers:
            await self.wake.wait(min(LOOK_EVERY_S, max(0.0, self._next_start_at - now)))

    async def _prepare_staged(self, loop: Loop) -> None:
        """Load a generation that is not visible yet, one step at least, until there is something else to do."""
        while self._source.has_staged_work:
            loop.beat()
            await self.database.read_at_once(lambda c: self._source.prepare_staged(c, time.time()))
            if self.wake.take() or self._source.triggers or time.time() >= self._next_start_at:
                return

    async def run_once(self, now: float) -> bool:
        """Take in what changed and run a cycle if that is a trigger; whether it started anything."""
        await self.follower.adopt(self._use_configuration)
        if now >= self._next_start_at:
            self._source.triggers.add(RESERVED)
            self._next_start_at = math.inf
        begun, durations = time.perf_counter(), self.statistic.durations
        if not self._source.is_loaded:
            await self.database.read_in_thread(self._source.load)
        await self.database.read_at_once(lambda connection: self._source.refresh(connection, now))
        durations.add("read", time.perf_counter() - begun)
        await self._say_if_stale(now)
        self._to_hint.set()
        if not self._source.triggers:
            await self._prepare(now)
            return False
        self.statistic.cycle(self._source.triggers, now)
        self._source.triggers, self._prepared = set(), self._source.order.generation
        clock = time.perf_counter()
        decision = await asyncio.to_thread(self._decide, now)
        decided = time.perf_counter()
        durations.add("place", decided - clock)
        has_started = await self._commit(decision, now)
        committed = time.perf_counter()
        durations.add("commit", committed - decided)
        durations.add("cycle", committed - begun)
        return has_started

    async def _prepare(self, now: float) -> None:
        """Take a generation in that is no trigger, so that the next cycle need not."""
        if self._prepared != self._source.order.generation:
            self._prepared = self._source.order.generation
            begun = time.perf_counter()
            await asyncio.to_thread(self._take_in, now)
            self.statistic.durations.add("prepare", time.perf_counter() - begun)

    def _take_in(self, now: float) -> None:
        for problem in self._source.problems(now):
            self._source.memory(problem).update(problem)

    def diag(self, now: float) -> SchedulerDiag:
        """How it is doing."""
        shown = self.statistic.shown(self._source.order.generation, self._source.staleness, now)
        return msgspec.structs.replace(shown, configuration=self.follower.diag())

    async def _say_if_stale(self, now: float) -> None:
        """Once when generations stay away, once when they come again."""
        is_stale, generation = self._source.staleness.is_stale, self._source.order.generation
        if is_stale == self._said_stale:
            return
        self._said_stale = is_stale
        self.statistic.stale += is_stale
        if is_stale:
            log.warning("no generation came after %d; going on with it, newer jobs behind it", generation)
        else:
            log.info("generations come again: %d", generation)
        event = SchedulerEvent(event="stale" if is_stale else "fresh", at=now, generation=generation)
        try:
            await self.bus.publish(EVENT_SCHEDULER, event)
        except LOST as error:  # `rankd diag` says it as well
            log.info("the scheduler's event was not sent: %s", error)

    def _decide(self, now: float) -> _Decision:
        """The cycle itself, partition by partition; in a thread, so that the bus stays answered."""
        problems = self._source.problems(now)
        memories = [self._source.memory(problem) for problem in problems]
        outcomes = [
            run_cycle(problem, self._policies[problem.node_sort.type], memory)
            for problem, memory in zip(problems, memories, strict=True)
        ]
        self.statistic.decided(
            looked_at=sum(outcome.looked_at for outcome in outcomes),
            backfilled=sum(outcome.backfilled for outcome in outcomes),
            reserved=sum(len(outcome.reservations) for outcome in outcomes),
        )
        placed = [placement for outcome in outcomes for placement in outcome.placements]
        return _Decision(
            allocations=self._source.placed_jobs().allocations(placed),
            reasons=self._reasons.of(outcomes, [memory.partition for memory in memories]),
            reservations=tuple(
                ReservationRow(job=made.job, nodes=made.nodes, starts_at=made.starts_at)
                for outcome in outcomes
                for made in outcome.reservations
            ),
        )

    async def _commit(self, decision: _Decision, now: float) -> bool:
        new, before = decision.allocations, self._last
        has_other_reasons = before is None or decision.reasons != before.reasons
        has_other_reservations = before is None or decision.reservations != before.reservations
        later = [row.starts_at for row in decision.reservations if row.starts_at > now]
        self._next_start_at = min(later, default=math.inf)
        if not new and not has_other_reasons and not has_other_reservations:
            return False
        if self._cycle is None:
            self._cycle = await self.database.read_at_once(last_cycle)
        self._cycle = cycle = self._cycle + 1

        def commit(connection: Connection) -> int:
            if has_other_reasons:
                save_reasons(connection, decision.reasons, None if before is None else before.reasons)
            if has_other_reservations:
                save_reservations(connection, decision.reservations, cycle, now)
            return commit_allocations(connection, new, cycle, now)

        started = await self.database.write(commit, role=ROLE)
        self.statistic.started(started)
        self._last = decision
        if started < len(new):
            self._source.triggers.add(RETRY)  # somebody else may have the room that a held job left
        if new:
            log.info("cycle %d: %d of %d placed jobs allocated", cycle, started, len(new))
            self._to_hint.set()
            await announce(self.bus, ROLE)
        return bool(started)

    async def hint_for_ever(self) -> None:
        """Tell nodes what waits for them whenever something was committed, and again until they have taken it."""
        loop = self.bus.loops.add("hints to nodes", LONG_ROUND_S)
        patience = Patience("hints to nodes", log)
        while True:
            loop.beat()
            await self._to_hint.wait(LOOK_EVERY_S)
            try:
                await self.hint_once(time.monotonic())
            except Unavailable as error:
                await patience.wait(error)
            except LOST as error:
                log.log(self.bus.wait_level, "nodes can't be told of their allocations yet: %s", error)
            else:
                patience.over()

    async def hint_once(self, now: float) -> list[str]:
        """Tell the nodes for which something new waits, or something old for long; returns their names."""
        waiting = await self.database.read_at_once(waiting_nodes)
        due = self._hints.due(waiting, now)
        for node in due:
            await self.bus.publish(node_subject(node, "allocation"), Waits())
        return due


class _Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle of all partitions comes to, as the records take it."""

    allocations: list[NewAllocation]
    reasons: frozenset[ReasonRow]
    reservations: tuple[ReservationRow, ...]

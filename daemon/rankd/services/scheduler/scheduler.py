"""The loop of the scheduler: read what changed, run a cycle if there is a trigger, commit, notify others."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import NamedTuple

import msgspec

from rankd.bus.liveness import Loop, Loops
from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts, load_node_sorts
from rankd.core.errors import Unavailable
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.configuration_follower import ConfigurationFollower, Prepared
from rankd.services.runtime.input_follower import InputFollower
from rankd.services.runtime.life import Patience, Wake
from rankd.services.runtime.pause import pause
from rankd.services.runtime.statistic import SchedulerStatistic
from rankd.services.scheduler.decision import Decider, Decision
from rankd.services.scheduler.decision_log import DecisionLog
from rankd.services.scheduler.node_wake_up import NodeWakeUp
from rankd.services.scheduler.outbox import Outbox
from rankd.services.scheduler.scheduling_source import RESERVED, SchedulingSource
from rankd.store.engine.database import Database
from rankd.store.record.adapter import InForce
from rankd.store.record.catalog import read_catalog
from rankd.wire.diag import SchedulerDiag
from rankd.wire.message import SchedulerEvent

log = logging.getLogger("rankd.scheduler")

ROLE = "scheduler"
RETRY = "retry"
CYCLE_BOUND_S = 120.0
LOOK_EVERY_S = 1.0
"""Seconds after which the records are read without a wake-up, because wake-ups may be lost."""


class ConfiguredPolicies(NamedTuple):
    """A configuration, and the node sorting policies that it names."""

    configuration: Configuration
    policies: dict[str, NodeSortPolicy]


def with_policies(configuration: Configuration) -> ConfiguredPolicies:
    """The parts of a configuration that cycles need.

    Raises:
        ConfigurationError: a policy cannot be loaded.
    """
    load_application_sorts(configuration.partitions)
    return ConfiguredPolicies(configuration, load_node_sorts(configuration.partitions))


class Scheduler:
    """One scheduler. :meth:`run_once` reads what changed, and runs a cycle if there is a trigger."""

    def __init__(
        self,
        configuration: Configuration,
        source: SchedulingSource,
        database: Database,
        outbox: Outbox,
        clock: Clock = time.time,
    ) -> None:
        self.wake = Wake()
        self.database = database
        self.nodes = NodeWakeUp(database, outbox)
        self.statistic = SchedulerStatistic(clock)
        self.inputs = InputFollower(configuration, database, self._use_inputs)
        self.follower = ConfigurationFollower(database, with_policies, self.wake.set)
        self._outbox = outbox
        self._clock = clock
        self._source = source
        self._decider = Decider(source, load_node_sorts(configuration.partitions), self.statistic)
        self._log = DecisionLog(database, ROLE)
        self._prepared = 0
        """The last generation for which the cycles' memories are prepared."""
        self._next_start_at = math.inf
        self._reported_stale = False

    def diag(self, now: float) -> SchedulerDiag:
        """What ``rankd diag`` shows about this scheduler."""
        shown = self.statistic.shown(self._source.order.generation, self._source.staleness, now)
        return msgspec.structs.replace(shown, configuration=self.follower.diag())

    async def _use_configuration(self, new: Prepared[ConfiguredPolicies]) -> None:
        """Use a configuration between two cycles. Read everything again if queues, limits or cycle settings changed."""
        configuration, policies = new.parts
        catalog = await self.database.read(read_catalog)
        if self._source.configure(configuration):
            self._decider.policies = policies
        else:
            staleness = self._source.staleness
            self._source = SchedulingSource(configuration, catalog)
            self._source.staleness = staleness
            self._decider, self._prepared = Decider(self._source, policies, self.statistic), 0
        await self.inputs.restate(configuration)

    async def _use_inputs(self, found: InForce) -> None:
        """Use new inputs of adapters. They may change what usage costs."""
        ids = (await self.database.read(read_catalog)).qos
        self._source.use_qos(found.configuration.settings.qos, ids)

    async def run(self, loops: Loops) -> None:
        """Call :meth:`run_once` whenever woken, and when a reserved job may start, until cancelled."""
        loop, patience = loops.add("cycles", CYCLE_BOUND_S), Patience("cycles", log)
        while True:
            loop.beat()
            try:
                await self._run_and_wait(loop)
            except Unavailable as error:
                self._source.triggers.add(RETRY)
                await patience.wait(error)
            else:
                patience.over()

    async def _run_and_wait(self, loop: Loop) -> None:
        now = self._clock()
        begun, known = time.monotonic(), self._source.revision
        await self.run_once(now)
        self.database.note_ready(ROLE)
        await pause(self._source.revision - known, time.monotonic() - begun)
        if self._source.has_staged_work:
            await self._prepare_staged(loop)
        elif not self._source.triggers:
            await self.wake.wait(min(LOOK_EVERY_S, max(0.0, self._next_start_at - now)))

    async def _prepare_staged(self, loop: Loop) -> None:
        """Load a generation that is not visible yet. Does at least one step, and stops when other work is due."""
        while self._source.has_staged_work:
            loop.beat()
            await self.database.read(lambda c: self._source.prepare_staged(c, self._clock()))
            if self.wake.take() or self._source.triggers or self._clock() >= self._next_start_at:
                return

    async def run_once(self, now: float) -> bool:
        """Read what changed, and run a cycle if there is a trigger; returns whether any job was allocated."""
        await self.follower.adopt(self._use_configuration)
        if now >= self._next_start_at:
            self._source.triggers.add(RESERVED)
            self._next_start_at = math.inf
        begun, durations = time.perf_counter(), self.statistic.durations
        if not self._source.is_loaded:
            await self.database.read_in_thread(self._source.load)
        await self.database.read(lambda connection: self._source.refresh(connection, now))
        durations.add("read", time.perf_counter() - begun)
        await self._report_if_stale(now)
        if not self._source.triggers:
            await self._prepare(now)
            return False
        has_started = await self._run_cycle(now)
        durations.add("cycle", time.perf_counter() - begun)
        return has_started

    async def _run_cycle(self, now: float) -> bool:
        durations = self.statistic.durations
        self.statistic.cycle(self._source.triggers, now)
        self._source.triggers, self._prepared = set(), self._source.order.generation
        begun = time.perf_counter()
        decision = await asyncio.to_thread(self._decider.decide, now)
        decided = time.perf_counter()
        durations.add("place", decided - begun)
        has_started = await self._commit(decision, now)
        durations.add("commit", time.perf_counter() - decided)
        return has_started

    async def _prepare(self, now: float) -> None:
        """Prepare for a generation that is not a trigger, which makes the next cycle faster."""
        if self._prepared != self._source.order.generation:
            self._prepared = self._source.order.generation
            begun = time.perf_counter()
            await asyncio.to_thread(self._decider.prepare, now)
            self.statistic.durations.add("prepare", time.perf_counter() - begun)

    async def _report_if_stale(self, now: float) -> None:
        """Report once when generations are overdue, and once when they arrive again."""
        is_stale, generation = self._source.staleness.is_stale, self._source.order.generation
        if is_stale == self._reported_stale:
            return
        self._reported_stale = is_stale
        self.statistic.stale += is_stale
        if is_stale:
            log.warning(
                "the prioritizer has made no generation for %g s; scheduling continues with generation %d, and newer"
                " jobs come after the ranked ones",
                self._source.staleness.after_s,
                generation,
            )
        else:
            log.info("the prioritizer makes generations again: %d", generation)
        await self._outbox.report(SchedulerEvent(event="stale" if is_stale else "fresh", at=now, generation=generation))

    async def _commit(self, decision: Decision, now: float) -> bool:
        """Commit the changes, then notify others; returns whether any job was allocated."""
        self._next_start_at = decision.next_start_after(now)
        started, placed = await self._log.commit(decision, now), len(decision.allocations)
        if started is None:
            return False
        self.statistic.started(started)
        if started < placed:
            self._source.triggers.add(RETRY)  # another job may use the room of a placed job that was held meanwhile
        if placed:
            log.info("cycle %d: %d of %d placed jobs allocated", self._log.cycle, started, placed)
            self.nodes.due.set()
            await self._outbox.wake_services()
        return bool(started)

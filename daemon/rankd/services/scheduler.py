"""The scheduler: one cycle per trigger, on the newest committed generation, never waiting for a new one.

Triggers are new jobs in a generation, ended jobs, changed nodes; a generation without new jobs is none. What
arrives during a cycle makes one more cycle. Decisions are ``core.placement``; allocations are committed first,
then published from the records, so that a crash in between loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from sqlalchemy import Connection

from rankd.bus.connection import Bus
from rankd.bus.health import answer_health
from rankd.bus.stream import ensure_streams
from rankd.config.configuration import Configuration, load_configuration
from rankd.config.plugin import load_node_sort
from rankd.core.errors import Unavailable
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.problem import CycleOutcome, PartitionProblem, WaitReason
from rankd.services.runtime import Wake, announce, probe, run_until, unless
from rankd.services.scheduling_source import SchedulingSource
from rankd.store.allocation import (
    NewAllocation,
    Publication,
    commit_allocations,
    last_cycle,
    mark_published,
    save_reasons,
    unpublished,
)
from rankd.store.catalog import sync_catalog
from rankd.store.database import Database, sqlite_path
from rankd.wire.subject import EVENT_RANKING, WAKE, node_subject

log = logging.getLogger("rankd.scheduler")

ROLE = "scheduler"
LOOK_EVERY_S = 1.0
"""Hints may be lost; this is how long it then takes until the records are looked at."""


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are."""

    nats: str
    db: str
    config: Path


async def run(options: SchedulerOptions, stop: asyncio.Event) -> None:
    """Schedule until ``stop``."""
    configuration = load_configuration(options.config)
    async with AsyncExitStack() as stack:
        scheduler = await unless(stop, _start(options, configuration, stack))
        if scheduler is not None:
            log.info("ready")
            await run_until(stop, scheduler.run(), scheduler.publish_for_ever())


async def _start(options: SchedulerOptions, configuration: Configuration, stack: AsyncExitStack) -> Scheduler:
    database = await stack.enter_async_context(Database(sqlite_path(options.db)))
    bus = await stack.enter_async_context(Bus(options.nats, ROLE))
    await database.take_role(ROLE, time.time())
    catalog = await database.write(lambda c: sync_catalog(c, configuration, time.time()), role=ROLE)
    await ensure_streams(bus)
    scheduler = Scheduler(configuration, SchedulingSource(configuration, catalog), database, bus)
    await scheduler.wake.listen(bus, WAKE, EVENT_RANKING)
    await answer_health(bus, ROLE, lambda: probe(database, bus))
    return scheduler


class Scheduler:
    """One instance; :meth:`run_once` looks, and runs a cycle if there is a trigger."""

    def __init__(self, configuration: Configuration, source: SchedulingSource, database: Database, bus: Bus) -> None:
        self.wake = Wake()
        self._to_publish = Wake()
        self._source = source
        self._database = database
        self._bus = bus
        self._cycle: int | None = None
        self._reasons: frozenset[WaitReason] | None = None
        self._policies = {
            partition.nodesort.type: load_node_sort(partition.nodesort.type) for partition in configuration.partitions
        }

    async def run(self) -> None:
        """Look whenever woken."""
        while True:
            if not await self.run_once(time.time()):
                await self.wake.wait(LOOK_EVERY_S)

    async def run_once(self, now: float) -> bool:
        """Take in what changed and run a cycle if that is a trigger; whether it started anything."""
        await self._database.read(self._source.refresh)
        self._to_publish.set()
        if not self._source.triggers:
            return False
        self._source.triggers = set()
        return await self._commit(*await asyncio.to_thread(self._decide), now)

    def _decide(self) -> tuple[list[NewAllocation], frozenset[WaitReason]]:
        """The cycle itself, partition by partition; in a thread, so that the bus stays answered."""
        problems = self._source.problems()
        outcomes = [run_cycle(problem, self._policies[problem.node_sort.type]) for problem in problems]
        reasons = frozenset(
            WaitReason(queue, self._source.shape_key(reason.kind), reason.reason, reason.fact)
            for problem, outcome in zip(problems, outcomes, strict=True)
            for reason in outcome.reasons
            for queue in _queues_of(problem, outcome, reason)
        )
        return self._allocations(outcomes), reasons

    async def _commit(self, new: list[NewAllocation], reasons: frozenset[WaitReason], now: float) -> bool:
        changed = reasons != self._reasons  # so at first: what a predecessor left may be out of date
        if not new and not changed:
            return False
        if self._cycle is None:
            self._cycle = await self._database.read(last_cycle)
        self._cycle = cycle = self._cycle + 1

        def commit(connection: Connection) -> int:
            if changed:
                save_reasons(connection, reasons)
            return commit_allocations(connection, new, cycle, now)

        started = await self._database.write(commit, role=ROLE)
        self._reasons = reasons
        if started < len(new):
            self._source.triggers.add("retry")  # somebody else may have the room that a held job left
        if new:
            log.info("cycle %d: %d of %d placed jobs allocated", cycle, started, len(new))
            self._to_publish.set()
            await announce(self._bus, ROLE)
        return bool(started)

    def _allocations(self, outcomes: list[CycleOutcome]) -> list[NewAllocation]:
        order = self._source.order
        placed = [placement for outcome in outcomes for placement in outcome.placements]
        ranks = order.ranks({placement.job: self._source.jobs[placement.job].queue for placement in placed})
        return [
            NewAllocation(
                job=placement.job,
                revision=self._source.jobs[placement.job].revision,
                nodes=placement.nodes,
                resources=self._source.jobs[placement.job].shape.resources,
                charge_rate=self._source.charge_rate(placement.job, len(placement.nodes)),
                generation=order.generation,
                rank=ranks[placement.job],
            )
            for placement in placed
        ]

    async def publish_for_ever(self) -> None:
        """Publish whenever something was committed; try again while the broker is away."""
        while True:
            await self._to_publish.wait(LOOK_EVERY_S)
            try:
                await self.publish_once()
            except* Unavailable as errors:
                log.info("allocations wait: %s", errors.exceptions[0])

    async def publish_once(self) -> None:
        """Send what the records say is not sent yet."""
        waiting = await self._database.read(unpublished)
        if not waiting.starts and not waiting.cancels:
            return
        await self._publish(waiting.starts)
        await self._publish(waiting.cancels)
        await self._database.write(lambda c: mark_published(c, waiting.started, waiting.cancelled), role=ROLE)

    async def _publish(self, publications: list[Publication]) -> None:
        async with asyncio.TaskGroup() as group:
            for publication in publications:
                subject = node_subject(publication.node, "allocation")
                group.create_task(self._bus.publish_durably(subject, publication.message, publication.message_id))


def _queues_of(problem: PartitionProblem, outcome: CycleOutcome, reason: WaitReason) -> list[int]:
    """The queues that a reason is told of."""
    if reason.queue is not None:
        return [reason.queue]
    own = {other.queue for other in outcome.reasons if other.kind == reason.kind}
    return [queue for queue, jobs in problem.waiting.items() if queue not in own and reason.kind in jobs.kinds]

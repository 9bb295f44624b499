"""The prioritizer: recomputes all priorities and the ranking, all the time, and waits for nobody.

A pass runs at once after something changed that it would show, and every ``priority.period_s``. Its arithmetic
is ``core.ranking``; it runs in a thread, so that the bus stays answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import numpy as np
from sqlalchemy import Connection

from rankd.bus.connection import LOST, Bus
from rankd.bus.health import answer_health
from rankd.bus.stream import ensure_streams
from rankd.config.configuration import Configuration, load_configuration
from rankd.config.plugin import factor_names, load_factors
from rankd.config.settings import check_weights
from rankd.core.admission.dependency import BEGIN_TIME, Progress, blocked_by, next_begin
from rankd.core.errors import ConfigurationError, Unavailable
from rankd.core.model.job import Event, State
from rankd.core.ranking.factor import Per
from rankd.core.ranking.priority import FactorValues
from rankd.core.ranking.queue_priority import QueuePriorities
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.services.ranking_source import RankingSource
from rankd.services.runtime import Wake, probe, run_until, unless
from rankd.store.application import follow, overdue_applications, save_waiting_applications
from rankd.store.catalog import sync_catalog
from rankd.store.database import Database, sqlite_path
from rankd.store.generation import GenerationRecord, Settlement, newest_number, stages
from rankd.store.job import Change, apply_changes, read_states
from rankd.store.view import FactorColumn
from rankd.wire.message import RankingEvent
from rankd.wire.subject import EVENT_RANKING, WAKE

log = logging.getLogger("rankd.prioritizer")

ROLE = "prioritizer"
REST = 0.5
"""After a pass, wait this part of its duration: submissions in between share the next one."""
LOOK_EVERY_S = 1.0
"""Hints may be lost; this is how long it then takes until the records are looked at."""


class PrioritizerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are; ``weights`` override the configuration's."""

    nats: str
    db: str
    config: Path
    weights: dict[str, float] = {}


async def run(options: PrioritizerOptions, stop: asyncio.Event) -> None:
    """Rank until ``stop``."""
    configuration = with_weights(load_configuration(options.config), options.weights)
    async with AsyncExitStack() as stack:
        prioritizer = await unless(stop, _start(options, configuration, stack))
        if prioritizer is not None:
            log.info("ready")
            await run_until(stop, prioritizer.run())


async def _start(options: PrioritizerOptions, configuration: Configuration, stack: AsyncExitStack) -> Prioritizer:
    database = await stack.enter_async_context(Database(sqlite_path(options.db), durable=False))
    bus = await stack.enter_async_context(Bus(options.nats, ROLE))
    await database.take_role(ROLE, time.time())
    catalog = await database.write(lambda c: sync_catalog(c, configuration, time.time()), role=ROLE)
    await ensure_streams(bus)
    prioritizer = Prioritizer(configuration, RankingSource(configuration, catalog), database, bus)
    await prioritizer.wake.listen(bus, WAKE)
    await answer_health(bus, ROLE, prioritizer.healthy)
    return prioritizer


def with_weights(configuration: Configuration, weights: dict[str, float]) -> Configuration:
    """The configuration with some weights replaced.

    Raises:
        ConfigurationError: an unknown factor, or a weight that is none.
    """
    if not weights:
        return configuration
    settings = configuration.settings
    priority = msgspec.structs.replace(settings.priority, weights=settings.priority.weights | weights)
    if problems := check_weights(priority, factor_names(), "--weight"):
        raise ConfigurationError(problems)
    return msgspec.structs.replace(configuration, settings=msgspec.structs.replace(settings, priority=priority))


class Prioritizer:
    """One instance; :meth:`run_once` is one pass."""

    def __init__(self, configuration: Configuration, source: RankingSource, database: Database, bus: Bus) -> None:
        self.wake = Wake()
        self._settings = configuration.settings.priority
        self._partitions = [partition.name for partition in configuration.partitions]
        self._factors = load_factors(self._settings)
        self._source = source
        self._database = database
        self._bus = bus
        self._number: int | None = None
        self._shown: list[FactorColumn] = []
        self._last_event: RankingEvent | None = None
        self._only_early: set[int] = set()
        self._last_good: dict[str, FactorValues] = {}
        self._waiting: frozenset[int] | None = None
        self._queue_priorities = QueuePriorities()

    async def healthy(self) -> str:
        """Ready once it has made a generation visible.

        Raises:
            Unavailable: ``not_ranked``, or what :func:`probe` raises.
        """
        if self._last_event is None:
            raise Unavailable("not_ranked", "the first pass is not finished")
        return f"generation {self._number}, {await probe(self._database, self._bus)}"

    async def run(self) -> None:
        """Pass after pass."""
        while True:
            begun = time.monotonic()
            await self.run_once(time.time())
            await asyncio.sleep(REST * (time.monotonic() - begun))
            await self._until_due()

    async def _until_due(self) -> None:
        """Until there is something that the newest generation does not show, or its time is over."""
        due = time.monotonic() + self._pause(time.time())
        while (left := due - time.monotonic()) > 0:
            await self.wake.wait(min(left, LOOK_EVERY_S))
            if await self._database.read(self._source.is_behind):
                return

    def _pause(self, now: float) -> float:
        begin = next_begin(list(self._source.blocked.values()), now)
        return self._settings.period_s if begin is None else min(self._settings.period_s, begin - now)

    async def run_once(self, now: float) -> Ranking:
        """Read what changed, rank, make one generation visible, say so."""
        clock = [time.perf_counter()]
        await self._age_applications(now)
        state = await self._database.read(self._source.refresh)
        if await self._release(now):
            state = await self._database.read(self._source.refresh)
        clock.append(time.perf_counter())
        ranking = await asyncio.to_thread(
            rank, state, self._settings, self._factors, now, self._last_good, shown=self._queue_priorities
        )
        self._keep_good(ranking)
        clock.append(time.perf_counter())
        durations = {"read": clock[1] - clock[0], "rank": clock[2] - clock[1]}
        await self._save(state, ranking, durations)
        await self._announce(ranking)
        return ranking

    def _keep_good(self, ranking: Ranking) -> None:
        failed = {error.factor for error in ranking.priorities.failures}
        for error in ranking.priorities.failures:
            log.error("%s; its last good values stay in force", error.message)
        for factor in ranking.priorities.factors:
            if factor.name not in failed:
                self._last_good[factor.name] = factor

    async def _save(self, state: RankingState, ranking: Ranking, durations: dict[str, float]) -> None:
        if self._number is None:
            self._number = await self._database.read(newest_number)
        columns = self._columns({error.factor for error in ranking.priorities.failures})
        record = GenerationRecord(
            number=self._number + 1,
            kind="full",
            policy=self._settings.policy,
            ranking=ranking,
            revision=self._source.revision,
            new_jobs=self._source.new_jobs,
            factors=columns,
            parameters=[
                (f"{factor.name}.{name}", value)
                for factor in self._factors
                for name, value in factor.parameters().items()
            ],
            partitions=list(
                zip(
                    self._partitions,
                    state.partition_nodes.tolist(),
                    state.partition_cores.tolist(),
                    strict=True,
                )
            ),
            association_ids=self._source.tree_ids,
            settlement=self._settlement(ranking.now),
            durations=durations,
            new_views=columns != self._shown,
        )
        await self._save_waiting(record.number, ranking.held_back)
        for stage in await asyncio.to_thread(lambda: list(stages(record))):
            await self._database.write(stage, role=ROLE)
        self._source.settle(record.settlement.associations)
        self._last_event = RankingEvent(
            generation=record.number,
            kind=record.kind,
            at=ranking.now,
            new_jobs=record.new_jobs,
            jobs=len(ranking.ids),
        )
        self._number, self._shown, self._source.new_jobs = record.number, columns, 0

    async def _save_waiting(self, number: int, waiting: frozenset[int]) -> None:
        """Nothing to write where nothing waits, nor did at the last generation that this process made."""
        if waiting or self._waiting != waiting:
            await self._database.write(lambda c: save_waiting_applications(c, number, waiting), role=ROLE)
        self._waiting = waiting

    def _columns(self, failed: set[str]) -> list[FactorColumn]:
        """What the views show; values that a failed factor kept from an earlier pass are no formula's."""
        return [
            FactorColumn(
                name=factor.name,
                per=factor.per,
                sql=factor.sql() if factor.per is Per.JOB and factor.name not in failed else None,
                parameters=tuple(factor.parameters()),
            )
            for factor in self._factors
        ]

    def _settlement(self, now: float) -> Settlement:
        """Accumulators of associations whose jobs ended since the last pass.

        What ended on a faster clock than ours is settled once ours has come that far, else it would be charged in
        part.
        """
        rows: list[tuple[float, float, int]] = []
        allocations: list[int] = []
        for ledger in self._source.ledgers:
            over = ledger.usage.until <= now
            usage = msgspec.structs.replace(ledger.usage, until=np.where(over, ledger.usage.until, np.inf))
            settled, instants = usage.settled(now, self._settings.fairshare.half_life_s)
            rows += [
                (float(settled[user]), float(instants[user]), int(ledger.association_ids[user]))
                for user in np.unique(usage.users[over]).tolist()
            ]
            allocations += ledger.charges[over].tolist()
        return Settlement(associations=rows, allocations=allocations)

    async def _announce(self, ranking: Ranking) -> None:
        del ranking
        if self._last_event is None:
            return
        try:
            await self._bus.publish(EVENT_RANKING, self._last_event)
        except LOST as error:  # the generation is in the database: who waits for it looks by itself
            log.info("the ranking's event was not sent: %s", error)

    async def _age_applications(self, now: float) -> None:
        """Applications that have been starting run, those that have been completing are over."""
        overdue = await self._database.read(lambda c: overdue_applications(c, now))
        if overdue:
            events = {id_: [event] for id_, event in overdue.items()}
            await self._database.write(lambda c: follow(c, events, now), role=ROLE)

    async def _release(self, now: float) -> bool:
        """Make jobs eligible whose dependencies are met and whose time has come."""
        if not self._source.blocked:
            return False
        progress = await self._database.read(self._progress)
        verdicts = {job: blocked_by(blocked, progress, now) for job, blocked in self._source.blocked.items()}
        free = [job for job, reason in verdicts.items() if reason is None]
        if free:
            await self._database.write(lambda c: _make_eligible(c, free, now), role=ROLE)
        await self._name_begin_times({job for job, reason in verdicts.items() if reason == BEGIN_TIME})
        return bool(free)

    async def _name_begin_times(self, early: set[int]) -> None:
        """Jobs whose dependencies are met and whose begin time is to come say so; that is no event of theirs."""
        if new := sorted(early - self._only_early):
            sql = (
                "UPDATE jobs SET blocked_by = ? WHERE blocked_by IS NOT NULL"
                " AND id IN (SELECT value FROM json_each(?))"
            )
            await self._database.write(lambda c: c.exec_driver_sql(sql, (BEGIN_TIME, json.dumps(new))), role=ROLE)
        self._only_early = early

    def _progress(self, connection: Connection) -> dict[int, Progress]:
        wanted = {d.job for blocked in self._source.blocked.values() for d in blocked.depends_on}
        rows = connection.exec_driver_sql(
            "SELECT id, state, started_at FROM jobs WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps([job for job in wanted if isinstance(job, int)]),),
        )
        return {id_: Progress(State(state), started is not None) for id_, state, started in rows}


def _make_eligible(connection: Connection, jobs: list[int], now: float) -> None:
    states = read_states(connection, jobs)
    changes = [
        Change(
            job=job,
            state=state.state,
            event=Event.ELIGIBLE,
            actor=ROLE,
            columns={"blocked_by": None, "eligible_at": None if state.held else now},
        )
        for job, state in states.items()
        if state.state is State.PENDING and state.blocked_by is not None
    ]
    apply_changes(connection, changes, now)

"""The prioritizer: recomputes all priorities and the ranking, all the time, and waits for nobody.

Two loops. One takes jobs into the newest order, and out of it, as soon as they come, change or go: a delta
generation, which costs what has changed. The other makes a full pass every ``priority.period_s``, and soon after
something has changed that a delta can't show (usage, nodes, a new association or queue). Passes run in a thread,
and deltas go on beside them; their arithmetic is ``core.ranking``.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from rankd.bus.connection import LOST, STREAM_BYTES, Bus
from rankd.bus.diag_request import answer_diag
from rankd.bus.health import answer_health
from rankd.bus.liveness import Loop
from rankd.bus.stream import ensure_streams
from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts, load_factors
from rankd.core.adapter.input import FactorRow
from rankd.core.errors import Unavailable
from rankd.core.ranking.columns import NO_GROUP, JobColumns
from rankd.core.ranking.external_value import ExternalValues, with_external_values
from rankd.core.ranking.factor import Factor
from rankd.core.ranking.order import Applications
from rankd.core.ranking.priority import FactorValues
from rankd.core.ranking.queue_priority import QueuePriorities
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.mirror.job_table import JobChanges, Snapshot, merged
from rankd.mirror.live_order import Changes, gained_values
from rankd.plugin.worker_factor import workers_among
from rankd.services.prioritizer.adapter_reader import AdapterReader
from rankd.services.prioritizer.eligibility import Eligibility
from rankd.services.prioritizer.factor_watch import FactorWatch, last_stored
from rankd.services.prioritizer.generation_writer import FullPass, GenerationWriter
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.runtime.configuration_follower import ConfigurationFollower, Prepared
from rankd.services.runtime.life import Patience, Wake, announce, is_set, probe, run_until, stay_alive, unless
from rankd.services.runtime.rest import rest
from rankd.services.runtime.stated import read_stated, settled, with_weights
from rankd.services.runtime.statistic import PrioritizerStatistic
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.url import open_database
from rankd.store.record.adapter import InForce
from rankd.store.record.catalog import Catalog, read_catalog
from rankd.store.record.generation import Header, Settlement
from rankd.wire.diag import PrioritizerDiag
from rankd.wire.message import RankingEvent
from rankd.wire.subject import EVENT_RANKING, WAKE

log = logging.getLogger("rankd.prioritizer")

ROLE = "prioritizer"
REST = 1.0
"""After a pass, wait this part of its duration, whatever has changed: half of a core is left to others."""
MOST = 2_000
"""Changes per delta generation: 25 ms of work, for a few of which it holds the write lock."""
SWITCH_S = 0.001
"""A pass in its thread gives way so soon to deltas, which take turns with it at every call of the database."""
PASS_BOUND_S = 300.0
"""A pass over a million jobs takes some 10 s on an idle machine."""
DELTA_BOUND_S = 60.0
LOOK_EVERY_S = 1.0
"""Hints may be lost; this is how long it then takes until the records are looked at."""


class PrioritizerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are; ``weights`` override the configuration's."""

    nats: str
    db: str
    config: Path
    stream_bytes: int = STREAM_BYTES
    weights: dict[str, float] = {}


async def run(options: PrioritizerOptions, stop: asyncio.Event) -> None:
    """Rank until ``stop``."""
    sys.setswitchinterval(SWITCH_S)
    async with AsyncExitStack() as stack:
        prioritizer = await unless(stop, _start(options, stack))
        if prioritizer is not None:
            log.info("ready")
            alive = stay_alive(prioritizer.database, ROLE, prioritizer.bus.loops)
            await run_until(stop, prioritizer.bus.supervise(), alive, prioritizer.run())


async def _start(options: PrioritizerOptions, stack: AsyncExitStack) -> Prioritizer:
    database = await stack.enter_async_context(open_database(options.db, durable=False))
    stated = await read_stated(database, options.config)
    with_weights(stated.configuration, options.weights)
    bus = await stack.enter_async_context(Bus(options.nats, ROLE, connect_timeout_s=None))
    bus.stream_bytes = options.stream_bytes
    bus.loops.reasons.append(database.trouble)
    await database.take_role(ROLE, time.time())
    stated, catalog = await settled(database, ROLE, stated, options.config)
    configuration = with_weights(stated.configuration, options.weights)
    await ensure_streams(bus)
    prioritizer = Prioritizer(configuration, RankingSource(configuration, catalog), database, bus)
    prioritizer.start_from(stated.number, options.weights)
    await prioritizer.adapters.start()
    await prioritizer.follower.listen(bus)
    await prioritizer.wake.listen(bus, WAKE)
    await answer_health(bus, ROLE, prioritizer.healthy)
    await answer_diag(bus, ROLE, prioritizer.healthy, prioritizer.diag, prioritizer.statistic.reset)
    return prioritizer


class ConfiguredFactors(NamedTuple):
    """A configuration, and the factors that it gives weights."""

    configuration: Configuration
    factors: list[Factor]


class Prioritizer:
    """One instance; :meth:`run_once` is one pass."""

    def __init__(self, configuration: Configuration, source: RankingSource, database: Database, bus: Bus) -> None:
        self.wake = Wake()
        self._settings = configuration.settings.priority
        self._own_factors = load_factors(self._settings)
        self._factors = self._own_factors
        self._given: dict[str, ExternalValues] = {}
        self._source = source
        self.database = database
        self.bus = bus
        partitions = [partition.name for partition in configuration.partitions]
        self._writer = GenerationWriter(database, source, partitions, ROLE, lambda: announce(bus, ROLE))
        self._eligibility = Eligibility(source.jobs, database, ROLE)
        self._soon = asyncio.Event()
        """A full pass is due before its time."""
        self._last_good: dict[str, FactorValues] = {}
        self._queue_priorities = QueuePriorities()
        self.statistic = PrioritizerStatistic()
        self._watch = FactorWatch(bus)
        self.adapters = AdapterReader(configuration, database, bus, ROLE, self._use_inputs)
        self._retired: list[Factor] = []
        """Factors of an earlier configuration, which deltas use until there is a pass with others."""
        self._weights: dict[str, float] = {}
        self.follower = ConfigurationFollower(database, self._with_factors, self._soon.set)

    def start_from(self, number: int | None, weights: dict[str, float]) -> None:
        """Start with the configuration of this number; these weights count with it and with later ones."""
        self._weights = weights
        self.adapters.number = number
        self.follower.start_from(number)

    async def healthy(self) -> str:
        """Ready once it has made a generation visible.

        Raises:
            Unavailable: ``not_ranked``, or what :func:`probe` raises.
        """
        if self._writer.newest is None:
            raise Unavailable("not_ranked", "the first pass is not finished")
        return f"generation {self._writer.newest.number}, {await probe(self.database, self.bus)}"

    def diag(self) -> PrioritizerDiag:
        """What it says of itself."""
        shown = self.statistic.shown(self.follower.diag())
        return msgspec.structs.replace(shown, plugins=self._watch.diag())

    async def run(self) -> None:
        """Both loops, and the adapters."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rank_for_ever())
            group.create_task(self._insert_for_ever())
            group.create_task(self.adapters.run())
            group.create_task(self.follower.run(self.bus.loops))

    async def _use_inputs(self, found: InForce, catalog: Catalog) -> None:
        """What adapters have given counts from the next full pass on, which is soon."""
        self._given = await asyncio.to_thread(_given_values, found)
        self._source.use_inputs(found, catalog)
        if self._writer.newest is not None:
            self._soon.set()

    def _with_factors(self, configuration: Configuration) -> ConfiguredFactors:
        """What passes need from a configuration.

        Raises:
            ConfigurationError: a factor or a policy of sorting applications cannot be loaded.
        """
        configuration = with_weights(configuration, self._weights)
        load_application_sorts(configuration.partitions)
        return ConfiguredFactors(configuration, load_factors(configuration.settings.priority))

    async def _use_configuration(self, new: Prepared[ConfiguredFactors]) -> None:
        """Between two full passes. Deltas go on with what the last pass knew, as far as that is possible."""
        configuration, factors = new.parts
        catalog = await self.database.read(read_catalog)
        async with self._writer.lock:
            if configuration.settings.priority != self._settings:
                self._settings = configuration.settings.priority
                self._retired += self._own_factors
                self._own_factors = self._factors = factors
            self._writer.partitions = [partition.name for partition in configuration.partitions]
            if self._source.configure(configuration, catalog):
                self._writer.live = None
        await self.adapters.exchange(configuration, new.number)

    async def _rank_for_ever(self) -> None:
        loop, patience = self.bus.loops.add("full passes", PASS_BOUND_S), Patience("full passes", log)
        while True:
            begun = time.monotonic()
            try:
                await self.run_once(time.time())
            except Unavailable as error:
                await self._writer.forget()
                loop.beat()
                await patience.wait(error)
                continue
            patience.over()
            loop.beat(self._settings.period_s)
            await self._until_due(begun, time.monotonic() - begun)

    async def _until_due(self, begun: float, took: float) -> None:
        """Until the pass's period is over; or something has changed, and the pass that took so long has rested."""
        left = begun + self._settings.period_s - time.monotonic()
        if left > 0 and await is_set(self._soon, left):
            await asyncio.sleep(min(REST * took, max(begun + self._settings.period_s - time.monotonic(), 0)))
        self._soon.clear()

    async def _insert_for_ever(self) -> None:
        loop, patience = self.bus.loops.add("delta generations", DELTA_BOUND_S), Patience("delta generations", log)
        while True:
            loop.beat()
            await self.wake.wait(min(self._pause(time.time()), LOOK_EVERY_S))
            try:
                await self._insert_all(loop)
            except Unavailable as error:
                await self._writer.forget()
                self._soon.set()
                await patience.wait(error)
            else:
                patience.over()

    async def _insert_all(self, loop: Loop) -> None:
        begun, known = time.monotonic(), self._source.jobs.revision
        while await self.insert_once(time.time()):
            loop.beat()
            await rest(self._source.jobs.revision - known, time.monotonic() - begun)
            begun, known = time.monotonic(), self._source.jobs.revision

    def _pause(self, now: float) -> float:
        """How long until there is something to do even if nothing happens."""
        begin = self._source.jobs.blocked.next_begin(now)
        return self._settings.period_s if begin is None else min(self._settings.period_s, begin - now)

    async def run_once(self, now: float) -> Ranking:
        """A full pass: read what changed, rank, make one generation visible, say so."""
        clock = [time.perf_counter()]
        await self.follower.adopt(self._use_configuration)
        await self._eligibility.age_applications(now)
        if not self._source.jobs.is_loaded:
            await self.database.read_in_thread(self._source.load)
            self._last_good = await self.database.read_in_thread(lambda c: last_stored(c, self._own_factors))
        state, snapshot, revision = await self._gather(now)
        clock.append(time.perf_counter())
        ranking, state = await asyncio.to_thread(self._rank, state, snapshot, now)
        self._source.adopt(snapshot, state.jobs)
        self._keep_good(ranking)
        await self._watch.note(ranking.priorities.failures, now)
        clock.append(time.perf_counter())
        found = FullPass(
            ranking=ranking,
            state=state,
            revision=revision,
            settlement=self._settlement(ranking.now),
            durations={"read": clock[1] - clock[0], "rank": clock[2] - clock[1]},
            settings=self._settings,
            factors=self._factors,
            configuration=self.follower.in_force,
        )
        made = await self._writer.save_full(found)
        retired, self._retired = self._retired, []
        for worker in workers_among(retired):
            await asyncio.to_thread(worker.close)
        for header in made:
            await self._announce(header)
        return ranking

    async def _gather(self, now: float) -> tuple[RankingState, Snapshot, int]:
        """The state without its jobs; these, whose later changes are kept for it; and the last event that is in it."""
        jobs = self._source.jobs
        async with self._writer.lock:
            self._take_note(await self.database.read_in_thread(self._source.read_changes))
            if await self._eligibility.release(now):
                self._take_note(await self.database.read_in_thread(self._source.read_changes))
            self._writer.backlog = []
            snapshot, revision = jobs.snapshot(), jobs.revision
        await self.database.read_in_thread(self._source.read_groups)
        return self._source.known_state, snapshot, revision

    def _take_note(self, changes: JobChanges) -> None:
        if changes.is_shown:
            self._writer.unapplied.append(self._as_columns(changes, None))

    def _rank(self, state: RankingState, snapshot: Snapshot, now: float) -> tuple[Ranking, RankingState]:
        """The pass itself, in a thread."""
        state = msgspec.structs.replace(state, jobs=merged(snapshot))
        self._last_good |= self._watch.prepare(self._own_factors)
        self._last_good |= gained_values(self._last_good, self._writer.live)
        self._factors = with_external_values(self._own_factors, self._given, state.tree, state.association_ids)
        ranking = rank(
            state, self._settings, self._factors, now, self._last_good, shown=self._queue_priorities, for_deltas=True
        )
        return ranking, state

    async def insert_once(self, now: float) -> bool:
        """Take what has happened to jobs into the order: one delta generation; whether there may be more."""
        async with self._writer.lock:
            live = self._writer.live
            if live is None or live.is_broken:
                return False
            begun = time.perf_counter()
            changes, more, touched = await self._next_changes()
            durations = {"read": time.perf_counter() - begun}
            made = await self._writer.save_delta(changes, durations) if changes.is_shown else None
            if live.is_stale:
                self._soon.set()
        if made is not None:
            await self._announce(made)
        return await self._eligibility.release_after(touched, now) or more

    async def _next_changes(self) -> tuple[Changes, bool, list[int]]:
        """What has happened since, whether there may be more, and the jobs that others may have waited for."""
        if self._writer.unapplied:
            return self._writer.unapplied.pop(0), True, []

        def read(connection: Connection) -> tuple[JobChanges, Applications | None, bool]:
            changes = self._source.read_changes(connection, MOST)
            named = any(row.application != NO_GROUP for row in changes.rows)
            applications = self._source.applications(connection) if named else None
            return changes, applications, self._source.has_other_nodes(connection)

        found, applications, other_nodes = await self.database.read_in_thread(read)
        if found.moved_nodes or other_nodes:
            self._soon.set()
        changes = self._as_columns(found, applications)
        if self._writer.backlog is not None and changes.is_shown:
            self._writer.backlog.append(changes)
        return changes, len(changes) > 0, found.gone

    def _as_columns(self, found: JobChanges, applications: Applications | None) -> Changes:
        return Changes(
            gone=np.array(found.gone, dtype=np.int64),
            jobs=JobColumns.from_rows(found.rows),
            revision=self._source.jobs.revision,
            is_shown=found.is_shown,
            applications=applications,
        )

    def _keep_good(self, ranking: Ranking) -> None:
        failed = {error.factor for error in ranking.priorities.failures}
        for factor in ranking.priorities.factors:
            if factor.name not in failed:
                self._last_good[factor.name] = factor

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
            allocations += ledger.allocation_ids[over].tolist()
        return Settlement(associations=rows, allocations=allocations)

    async def _announce(self, header: Header) -> None:
        self.statistic.made(header)
        at = header.ranked_at if header.kind == "full" else header.made_at
        event = RankingEvent(
            generation=header.number, kind=header.kind, at=at, new_jobs=header.new_jobs, jobs=header.jobs
        )
        try:
            await self.bus.publish(EVENT_RANKING, event)
        except LOST as error:  # the generation is in the database: who waits for it looks by itself
            log.info("the ranking's event was not sent: %s", error)


def _given_values(found: InForce) -> dict[str, ExternalValues]:
    """By factor, of all adapters that give values for it."""
    rows: dict[str, list[FactorRow]] = {}
    for stored in found.inputs:
        if stored.input.factor is not None:
            rows.setdefault(stored.input.factor, []).extend(stored.input.values)
    return {factor: ExternalValues.of(given) for factor, given in rows.items()}

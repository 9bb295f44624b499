"""The prioritizer: computes all priorities and the ranking repeatedly, and waits for no other service.

It has two loops. One adds jobs to the newest order, and removes them, as soon as they arrive, change or end. Each time
it makes a delta generation, whose cost depends on the number of changes. The other loop makes a full pass every
``priority.period_s``, and soon after a change that a delta cannot show: of usage, nodes, associations or queues. Full
passes run in a thread, and deltas continue meanwhile. The arithmetic of both is in ``core.ranking``.
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

from rankd.bus.connection import LOST, STREAM_BYTES, Bus
from rankd.bus.diag_request import answer_diag
from rankd.bus.health import answer_health
from rankd.bus.liveness import Loop
from rankd.bus.stream import ensure_streams
from rankd.bus.tls_files import TlsFiles
from rankd.config.configuration import Configuration
from rankd.config.plugin import load_application_sorts, load_factors
from rankd.core.errors import Unavailable
from rankd.core.ranking.factor import Factor
from rankd.core.ranking.ranking import Ranking
from rankd.identity.credentials import source_of
from rankd.services.prioritizer.adapter_reader import AdapterReader
from rankd.services.prioritizer.delta_pass import DeltaPasses
from rankd.services.prioritizer.eligibility import Eligibility
from rankd.services.prioritizer.factor_set import FactorSet
from rankd.services.prioritizer.full_pass import FullPasses
from rankd.services.prioritizer.generation_writer import GenerationWriter
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.services.prioritizer.role import ROLE
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.configuration_follower import ConfigurationFollower, Prepared
from rankd.services.runtime.life import Patience, Wake, announce, is_set, probe, run_until, stay_alive, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.of_services import of_prioritizer
from rankd.services.runtime.pause import pause
from rankd.services.runtime.service_configuration import starting_configuration, with_catalog, with_weights
from rankd.services.runtime.standby import WarmSource, take_role
from rankd.services.runtime.statistic import PrioritizerStatistic
from rankd.store.engine.database import Database
from rankd.store.engine.url import open_database
from rankd.store.record.adapter import InForce
from rankd.store.record.catalog import Catalog, read_catalog
from rankd.store.record.generation import Header
from rankd.wire.diag import PrioritizerDiag
from rankd.wire.message import RankingEvent
from rankd.wire.subject import EVENT_RANKING, WAKE

log = logging.getLogger("rankd.prioritizer")

REST = 1.0
"""After a full pass, wait this many times its duration, even after changes: this leaves half a core free."""
SWITCH_S = 0.001
"""The interpreter's switch interval. A pass in its thread and deltas alternate at every call of the database."""
PASS_BOUND_S = 300.0
"""A pass over a million jobs takes about 10 s on an idle machine."""
DELTA_BOUND_S = 60.0
LOOK_EVERY_S = 1.0
"""Hints on the bus may be lost, so the records are read at this interval even without one."""


class PrioritizerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses and paths. ``weights`` replace those of the configuration."""

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str
    config: Path
    stream_bytes: int = STREAM_BYTES
    weights: dict[str, float] = {}


async def run(
    options: PrioritizerOptions, stop: asyncio.Event, clock: Clock = time.time, exported: Exported | None = None
) -> None:
    """Rank until ``stop``. ``clock`` returns UTC seconds."""
    sys.setswitchinterval(SWITCH_S)
    async with AsyncExitStack() as stack:
        prioritizer = await unless(stop, _start(options, stack, clock))
        if prioritizer is not None:
            log.info("ready")
            await prioritizer.export(exported or Exported(ROLE))
            alive = stay_alive(prioritizer.database, ROLE, prioritizer.bus.loops)
            await run_until(stop, prioritizer.bus.supervise(), alive, prioritizer.run())


async def _start(options: PrioritizerOptions, stack: AsyncExitStack, clock: Clock) -> Prioritizer:
    database = await stack.enter_async_context(open_database(options.db, durable=False, clock=clock))
    stated = await starting_configuration(database, options.config)
    with_weights(stated.configuration, options.weights)
    bus = await stack.enter_async_context(
        Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls)
    )
    bus.stream_bytes = options.stream_bytes
    bus.loops.reasons.append(database.trouble)
    make = lambda configuration, catalog: RankingSource(with_weights(configuration, options.weights), catalog)  # noqa: E731
    warm = WarmSource(database, options.config, make, RankingSource.stand_by)
    await take_role(database, ROLE, clock, warm.follow)
    stated, catalog = await with_catalog(database, ROLE, stated, options.config, clock)
    configuration = with_weights(stated.configuration, options.weights)
    bus.stream_replicas = configuration.settings.nats.replicas
    await ensure_streams(bus)
    prioritizer = Prioritizer(configuration, warm.take(stated, catalog), database, bus, clock)
    prioritizer.start_from(stated.number, options.weights)
    await prioritizer.adapters.start()
    await prioritizer.follower.listen(bus)
    await prioritizer.wake.listen(bus, WAKE)
    await answer_health(bus, ROLE, prioritizer.healthy)
    await answer_diag(bus, ROLE, prioritizer.healthy, prioritizer.diag, prioritizer.statistic.reset)
    return prioritizer


class ConfiguredFactors(NamedTuple):
    """A configuration, and the factors to which it gives weights."""

    configuration: Configuration
    factors: list[Factor]


class Prioritizer:
    """One prioritizer. :meth:`run_once` is a full pass, :meth:`insert_once` a delta pass."""

    def __init__(
        self,
        configuration: Configuration,
        source: RankingSource,
        database: Database,
        bus: Bus,
        clock: Clock = time.time,
    ) -> None:
        self.database = database
        self.bus = bus
        self.wake = Wake()
        self.statistic = PrioritizerStatistic(clock)
        self.factors = FactorSet(configuration.settings.priority, bus)
        self._clock = clock
        self._source = source
        self._writer = GenerationWriter(database, source, clock, lambda: announce(bus, ROLE))
        self._eligibility = Eligibility(
            source.jobs, database, lambda: source.configuration.settings.scheduling.cancel_if_unmet
        )
        self._soon = asyncio.Event()
        """Set if a full pass is due before its time."""
        own = database, source, self._writer, self._eligibility
        self._full_passes = FullPasses(*own, self.factors)
        self._delta_passes = DeltaPasses(*own, self._soon.set)
        self.adapters = AdapterReader(configuration, database, bus, self._use_inputs, clock)
        self._weights: dict[str, float] = {}
        self.follower = ConfigurationFollower(database, self._with_factors, self._soon.set)

    def start_from(self, number: int | None, weights: dict[str, float]) -> None:
        """Start with the configuration of this number. These weights also apply to later configurations."""
        self._weights = weights
        self.adapters.number = number
        self.follower.start_from(number)

    async def healthy(self) -> str:
        """Report readiness: the prioritizer is ready once it has made a generation visible.

        Raises:
            Unavailable: ``not_ranked``, or what :func:`probe` raises.
        """
        if self._writer.newest is None:
            raise Unavailable("not_ranked", "the first pass is not finished")
        return f"generation {self._writer.newest.number}, {await probe(self.database, self.bus)}"

    def diag(self) -> PrioritizerDiag:
        """What ``rankd diag`` shows about the prioritizer."""
        shown = self.statistic.shown(self.follower.diag())
        return msgspec.structs.replace(shown, plugins=self.factors.diag())

    async def export(self, exported: Exported) -> None:
        """Export its figures, and answer who asks for them."""
        exported.add(lambda: of_prioritizer(self.diag(), self.statistic.durations.histograms))
        exported.configuration(self.follower.diag)
        await exported.answer(self.bus)

    async def run(self) -> None:
        """Run both loops, the adapters, and the follower of configurations."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rank_for_ever())
            group.create_task(self._insert_for_ever())
            group.create_task(self.adapters.run())
            group.create_task(self.follower.run(self.bus.loops))

    async def _use_inputs(self, found: InForce, catalog: Catalog) -> None:
        """Use inputs of adapters from the next full pass on, which then starts soon."""
        await asyncio.to_thread(self.factors.use_inputs, found)
        self._source.use_inputs(found, catalog)
        if self._writer.newest is not None:
            self._soon.set()

    def _with_factors(self, configuration: Configuration) -> ConfiguredFactors:
        """The parts of a configuration that passes need.

        Raises:
            ConfigurationError: a factor or a policy of sorting applications cannot be loaded.
        """
        configuration = with_weights(configuration, self._weights)
        load_application_sorts(configuration.partitions)
        return ConfiguredFactors(configuration, load_factors(configuration.settings.priority))

    async def _use_configuration(self, new: Prepared[ConfiguredFactors]) -> None:
        """Use a configuration between two full passes. Deltas continue with the last pass's data if possible."""
        configuration, factors = new.parts
        catalog = await self.database.read(read_catalog)
        self._source.jobs.blocked.look_at_all()
        async with self._writer.lock:
            self.factors.configure(configuration.settings.priority, factors)
            if self._source.configure(configuration, catalog):
                self._writer.live = None
        await self.adapters.exchange(configuration, new.number)

    async def _rank_for_ever(self) -> None:
        loop, patience = self.bus.loops.add("full passes", PASS_BOUND_S), Patience("full passes", log)
        while True:
            begun = time.monotonic()
            try:
                await self.run_once(self._clock())
            except Unavailable as error:
                await self._writer.forget()
                loop.beat()
                await patience.wait(error)
                continue
            patience.over()
            self.database.note_ready(ROLE)
            loop.beat(self._period_s)
            await self._until_due(begun, time.monotonic() - begun)

    @property
    def _period_s(self) -> float:
        return self.factors.settings.period_s

    async def _until_due(self, begun: float, took: float) -> None:
        """Wait until the period is over; if something has changed, only as long as the last pass ``took``."""
        left = begun + self._period_s - time.monotonic()
        if left > 0 and await is_set(self._soon, left):
            await asyncio.sleep(min(REST * took, max(begun + self._period_s - time.monotonic(), 0)))
        self._soon.clear()

    async def _insert_for_ever(self) -> None:
        loop, patience = self.bus.loops.add("delta generations", DELTA_BOUND_S), Patience("delta generations", log)
        while True:
            loop.beat()
            await self.wake.wait(min(self._pause(self._clock()), LOOK_EVERY_S))
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
        while await self.insert_once(self._clock()):
            loop.beat()
            await pause(self._source.jobs.revision - known, time.monotonic() - begun)
            begun, known = time.monotonic(), self._source.jobs.revision

    def _pause(self, now: float) -> float:
        """Seconds until there is work even without a change."""
        begin = self._source.jobs.blocked.next_begin(now)
        return self._period_s if begin is None else min(self._period_s, begin - now)

    async def run_once(self, now: float) -> Ranking:
        """Run a full pass with the newest configuration, and publish its generations."""
        await self.follower.adopt(self._use_configuration)
        ranking, made = await self._full_passes.run_once(now, self.follower.in_force)
        for header in made:
            await self._publish(header)
        return ranking

    async def insert_once(self, now: float) -> bool:
        """Run a delta pass and publish its generation. Returns whether another one may have work."""
        made, may_have_more = await self._delta_passes.run_once(now)
        if made is not None:
            await self._publish(made)
        return may_have_more

    async def _publish(self, header: Header) -> None:
        self.statistic.made(header)
        at = header.ranked_at if header.kind == "full" else header.made_at
        event = RankingEvent(
            generation=header.number, kind=header.kind, at=at, new_jobs=header.new_jobs, jobs=header.jobs
        )
        try:
            await self.bus.publish(EVENT_RANKING, event)
        except LOST as error:  # the generation is in the database, which other services read once a second
            log.info("the ranking's event was not sent: %s", error)

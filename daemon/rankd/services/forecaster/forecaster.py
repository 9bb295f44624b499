"""The loop of the forecaster: read the live state, run it forward, write the ranges, score what was shown.

It decides nothing about jobs. If it stops, only forecasts get old, and each answer says how old they are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial

from rankd.bus.liveness import Loop, Loops
from rankd.config.configuration import Configuration
from rankd.config.plugin import load_node_sorts
from rankd.core.errors import Unavailable
from rankd.core.forecast.outlook import Forecast, StartRange
from rankd.core.forecast.pace import Paces
from rankd.services.forecaster.budget import SLICE_S, Budget
from rankd.services.forecaster.live_state import Gathered, gather
from rankd.services.forecaster.statistic import ForecasterStatistic
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.configuration_follower import ConfigurationFollower, Prepared
from rankd.services.runtime.life import Patience, Wake
from rankd.services.scheduler.scheduler import ConfiguredPolicies, with_policies
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.database import Database
from rankd.store.feed.forecast import ended_runs
from rankd.store.record.catalog import read_catalog
from rankd.store.record.forecast import (
    PART,
    ForecastRow,
    known_ranges,
    prune_estimates,
    save_forecast,
    save_ranges,
    score_started,
)
from rankd.wire.diag import ForecasterDiag

log = logging.getLogger("rankd.forecaster")

ROLE = "forecaster"
ROUND_S = 3600.0
"""A round may rest for long: with a hundredth of a core, a second of work takes 100 s."""
MOST_CPU_S = 60.0
"""Processor time of a run after which it is cut off. What it has not reached is beyond the horizon."""


class Forecaster:
    """One forecaster. :meth:`run_once` makes a whole forecast."""

    def __init__(
        self, configuration: Configuration, source: SchedulingSource, database: Database, clock: Clock = time.time
    ) -> None:
        self.database = database
        self.statistic = ForecasterStatistic(clock)
        self.wake = Wake()
        """Set when somebody asks for a range that no forecast has yet."""
        self.follower = ConfigurationFollower(database, with_policies, self.wake.set)
        self._clock = clock
        self._source = source
        self._use(ConfiguredPolicies(configuration, load_node_sorts(configuration.partitions)))
        self._paces = Paces()
        self._ended = -1
        """The last event whose ended jobs are among the paces."""
        self._written: dict[int, StartRange] | None = None
        """The ranges in the records; None before they have been read."""

    def diag(self) -> ForecasterDiag:
        """What ``rankd diag`` shows about this forecaster."""
        return self.statistic.shown(self.follower.diag())

    def _use(self, parts: ConfiguredPolicies) -> None:
        self._settings = parts.configuration.settings
        self._policies = parts.policies

    async def run(self, loops: Loops) -> None:
        """Make a forecast every ``forecast.every_s``, or when woken, until cancelled."""
        loop, patience = loops.add("forecasts", ROUND_S), Patience("forecasts", log)
        while True:
            loop.beat()
            begun = time.monotonic()
            try:
                await self.follower.adopt(self._use_configuration)
                if self._settings.forecast.enabled:
                    await self.run_once(loop)
            except Unavailable as error:
                await patience.wait(error)
                continue
            patience.over()
            loop.beat()
            await self.wake.wait(max(0.0, self._settings.forecast.every_s - (time.monotonic() - begun)))

    async def _use_configuration(self, new: Prepared[ConfiguredPolicies]) -> None:
        """Use another configuration. Read everything again if queues, limits or cycle settings changed."""
        catalog = await self.database.read(read_catalog)
        if not self._source.configure(new.parts.configuration):
            self._source = SchedulingSource(new.parts.configuration, catalog)
        self._use(new.parts)

    async def run_once(self, loop: Loop | None = None) -> int:
        """Make a forecast, and write it; returns how many jobs have a range or a reason for having none."""
        now, settings = self._clock(), self._settings.forecast
        budget = Budget(settings.most_cpu)
        if not self._source.is_loaded:
            await self.database.read_in_thread(self._source.load)
        await self._learn()
        found = await self.database.read_in_thread(
            lambda c: gather(c, self._source, self._paces, self._policies, settings.horizon_jobs, now)
        )
        forecast = Forecast(found.live, found.untold)
        await self._run(forecast, budget, loop)
        ranges = await asyncio.to_thread(forecast.ranges)
        await self._write(ranges, loop)
        await self._finish(found, len(ranges), budget, now)
        await self._score(loop)
        await asyncio.sleep(budget.rest_s)
        return len(ranges)

    async def _learn(self) -> None:
        """Add the jobs that have ended to the paces."""
        ended = await self.database.read_in_thread(lambda c: ended_runs(c, self._ended))
        self._ended = ended.revision
        for one in ended.runs:
            self._paces.add(one.pair, one.run_s, one.limit_s)

    async def _run(self, forecast: Forecast, budget: Budget, loop: Loop | None) -> None:
        """Run the state forward, a slice of processor time at once, and rest in between."""
        steps, run_s = forecast.steps(), 0.0
        while True:
            before = time.process_time()
            more = await asyncio.to_thread(_slice, steps)
            run_s += time.process_time() - before
            if not more:
                return
            if run_s > MOST_CPU_S:
                forecast.cut()
                run_s = 0.0
            if loop is not None:
                loop.beat()
            await asyncio.sleep(budget.rest_s)

    async def _write(self, ranges: Sequence[StartRange], loop: Loop | None) -> None:
        """Write those ranges that differ from the recorded ones, in small transactions."""
        if self._written is None:
            known = await self.database.read_in_thread(known_ranges)
            self._written = {job: StartRange(job, None, None, "unknown") for job in known}
        new = {one.job: one for one in ranges}
        changed = [one for one in ranges if self._written.get(one.job) != one]
        gone = sorted(self._written.keys() - new.keys())
        self._written = None  # it is read again if a write fails
        for at in range(0, max(len(changed), len(gone)), PART):
            await self._save(changed[at : at + PART], gone[at : at + PART], loop)
        self._written = new

    async def _save(self, ranges: list[StartRange], gone: list[int], loop: Loop | None) -> None:
        await self.database.write(partial(save_ranges, ranges=ranges, gone=gone), role=ROLE)
        if loop is not None:
            loop.beat()

    async def _finish(self, found: Gathered, jobs: int, budget: Budget, now: float) -> None:
        row = ForecastRow(now, found.generation, jobs, found.beyond, budget.took_s, budget.used_s)
        await self.database.write(partial(save_forecast, row=row), role=ROLE)
        self.statistic.made(row)

    async def _score(self, loop: Loop | None) -> None:
        """Score the estimates whose jobs have started, and delete old ones."""
        before = self._clock() - self._settings.retention.events_s
        for work in (score_started, lambda c: prune_estimates(c, before)):
            while await self.database.write(work, role=ROLE):
                if loop is not None:
                    loop.beat()


def _slice(steps: Iterator[None]) -> bool:
    """Some steps; returns whether there may be more."""
    until = time.thread_time() + SLICE_S
    return any(time.thread_time() >= until for _ in steps)

"""The forecaster: runs the scheduler's decisions forward, so that users can ask when their jobs will start.

It reads the records as the scheduler does, and writes only what it foresees. It uses at most ``forecast.most_cpu`` of a
processor core, so that the scheduler never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.diag_request import answer_diag
from rankd.bus.health import answer_health
from rankd.bus.tls_files import TlsFiles
from rankd.identity.credentials import source_of
from rankd.services.forecaster.forecaster import ROLE, Forecaster
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import probe, run_until, stay_alive, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.of_services import of_forecaster
from rankd.services.runtime.service_configuration import starting_configuration, with_catalog
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.url import open_database
from rankd.wire.subject import FORECAST_WANTED

log = logging.getLogger("rankd.forecaster")

NICE = 10
"""A process that forecasts is less urgent than the other services of the machine."""


class ForecasterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker, the database and the configuration are."""

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str
    config: Path


async def run(
    options: ForecasterOptions, stop: asyncio.Event, clock: Clock = time.time, exported: Exported | None = None
) -> None:
    """Forecast until ``stop``."""
    async with AsyncExitStack() as stack:
        started = await unless(stop, _start(options, stack, clock))
        if started is not None:
            forecaster, bus = started
            await _export(exported or Exported(ROLE), forecaster, bus)
            log.info("ready")
            await run_until(
                stop,
                bus.supervise(),
                stay_alive(forecaster.database, ROLE, bus.loops),
                forecaster.run(bus.loops),
                forecaster.follower.run(bus.loops),
            )


async def _start(options: ForecasterOptions, stack: AsyncExitStack, clock: Clock) -> tuple[Forecaster, Bus]:
    database = await stack.enter_async_context(open_database(options.db, clock=clock))
    stated = await starting_configuration(database, options.config)
    bus = await stack.enter_async_context(
        Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls)
    )
    bus.loops.reasons.append(database.trouble)
    await database.take_role(ROLE, clock())
    (number, configuration), catalog = await with_catalog(database, ROLE, stated, options.config, clock)
    forecaster = Forecaster(configuration, SchedulingSource(configuration, catalog), database, clock)
    forecaster.follower.start_from(number)
    await forecaster.follower.listen(bus)
    await forecaster.wake.listen(bus, FORECAST_WANTED)
    healthy = partial(probe, database, bus)
    await answer_health(bus, ROLE, healthy)
    await answer_diag(bus, ROLE, healthy, forecaster.diag, forecaster.statistic.reset)
    return forecaster, bus


async def _export(exported: Exported, forecaster: Forecaster, bus: Bus) -> None:
    statistic = forecaster.statistic
    exported.add(lambda: of_forecaster(forecaster.diag(), statistic.durations.histograms))
    exported.configuration(forecaster.follower.diag)
    await exported.answer(bus)

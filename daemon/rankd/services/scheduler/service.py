"""The scheduler: one cycle per trigger, on the newest committed generation; it never waits for a new one.

Triggers are new jobs in a generation, ended jobs and changed nodes. A generation without new jobs is not a trigger.
Whatever arrives during a cycle triggers one more cycle. ``core.placement`` decides. Allocations are committed before
anything is announced. The records then show which nodes have allocations waiting. These nodes are woken until they
have requested them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from rankd.bus.connection import STREAM_BYTES, Bus
from rankd.bus.diag_request import answer_diag
from rankd.bus.health import answer_health
from rankd.bus.stream import ensure_streams
from rankd.bus.tls_files import TlsFiles
from rankd.identity.credentials import source_of
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import probe, run_until, stay_alive, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.of_services import of_scheduler
from rankd.services.runtime.service_configuration import starting_configuration, with_catalog
from rankd.services.runtime.standby import WarmSource, take_role
from rankd.services.scheduler.outbox import BusOutbox
from rankd.services.scheduler.scheduler import ROLE, Scheduler
from rankd.services.scheduler.scheduling_source import SchedulingSource
from rankd.store.engine.url import open_database
from rankd.wire.subject import EVENT_RANKING, WAKE

log = logging.getLogger("rankd.scheduler")


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker, the database and the configuration are."""

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str
    config: Path
    stream_bytes: int = STREAM_BYTES


async def run(
    options: SchedulerOptions, stop: asyncio.Event, clock: Clock = time.time, exported: Exported | None = None
) -> None:
    """Schedule until ``stop``."""
    async with AsyncExitStack() as stack:
        started = await unless(stop, _start(options, stack, clock))
        if started is not None:
            scheduler, bus = started
            await _export(exported or Exported(ROLE), scheduler, bus, clock)
            log.info("ready")
            await run_until(
                stop,
                bus.supervise(),
                stay_alive(scheduler.database, ROLE, bus.loops),
                scheduler.run(bus.loops),
                scheduler.nodes.run(bus.loops),
                scheduler.inputs.run(bus.loops),
                scheduler.follower.run(bus.loops),
            )


async def _start(options: SchedulerOptions, stack: AsyncExitStack, clock: Clock) -> tuple[Scheduler, Bus]:
    database = await stack.enter_async_context(open_database(options.db, clock=clock))
    stated = await starting_configuration(database, options.config)
    bus = await stack.enter_async_context(
        Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls)
    )
    bus.stream_bytes = options.stream_bytes
    bus.loops.reasons.append(database.trouble)
    warm = WarmSource(database, options.config, SchedulingSource, lambda source, c: source.stand_by(c, clock()))
    await take_role(database, ROLE, clock, warm.follow)
    stated, catalog = await with_catalog(database, ROLE, stated, options.config, clock)
    number, configuration = stated
    bus.stream_replicas = configuration.settings.nats.replicas
    await ensure_streams(bus)
    source = warm.take(stated, catalog)
    scheduler = Scheduler(configuration, source, database, BusOutbox(bus, ROLE), clock)
    scheduler.follower.start_from(number)
    await scheduler.follower.listen(bus)
    waits_for_ranks = lambda committed: committed.only_new_jobs and not source.staleness.is_stale  # noqa: E731
    await scheduler.wake.listen(bus, WAKE, EVENT_RANKING, besides=ROLE, skips=waits_for_ranks)
    await scheduler.nodes.due.listen(bus, WAKE, besides=ROLE, skips=lambda committed: committed.only_new_jobs)
    healthy = partial(probe, database, bus)
    await answer_health(bus, ROLE, healthy)
    await answer_diag(bus, ROLE, healthy, lambda: scheduler.diag(clock()), scheduler.statistic.reset)
    return scheduler, bus


async def _export(exported: Exported, scheduler: Scheduler, bus: Bus, clock: Clock) -> None:
    statistic = scheduler.statistic
    exported.add(lambda: of_scheduler(scheduler.diag(clock()), statistic.durations.histograms))
    exported.configuration(scheduler.follower.diag)
    await exported.answer(bus)

"""Intake: handles requests of users and nodes, and agents' reports. Everything is durable before it is answered.

It also publishes events, writes checkpoints of the write-ahead log, and deletes old records.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from rankd.bus.connection import STREAM_BYTES, Bus
from rankd.bus.stream import ensure_streams, until_done
from rankd.bus.tls_files import TlsFiles
from rankd.core.admission.runnable_user import LocalRights
from rankd.core.errors import ConfigurationError, Unavailable
from rankd.identity.credentials import source_of
from rankd.services.intake.configuration_keeper import Found, Taken, find, find_recorded, start_with
from rankd.services.intake.export import export
from rankd.services.intake.intake import ROLE, Intake
from rankd.services.intake.retired_stream import recorder, take_over
from rankd.services.intake.serving import Charge, Serving
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import end_tasks, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.standby import take_role
from rankd.store.engine.database import Database
from rankd.store.engine.url import open_database
from rankd.store.feed.new_pending import newest
from rankd.store.record.catalog import forget_idle_queues, read_catalog, with_shares
from rankd.store.record.configuration import newest_configuration
from rankd.store.schema.migration import shipped

log = logging.getLogger("rankd.intake")

FREE_S = 0.5
"""An intake that does not get its role within this time answers users beside the one that holds it."""
SWITCH_S = 0.0005
"""The interpreter's switch interval: the time for which a thread of one user can hold up the answers to others."""


class IntakeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker, the database and the configuration are. ``local``: where jobs run as their users."""

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str
    config: Path
    stream_bytes: int = STREAM_BYTES
    local: LocalRights | None = None


async def run(
    options: IntakeOptions, stop: asyncio.Event, hangup: asyncio.Event | None = None, clock: Clock = time.time,
    exported: Exported | None = None,
) -> None:  # fmt: skip
    """Serve until ``stop``; read the configuration again at every ``hangup``."""
    sys.setswitchinterval(SWITCH_S)
    async with AsyncExitStack() as stack:
        started = await unless(stop, _start(options, stack, clock))
        if started is not None:
            intake, charge = started
            await export(exported or Exported(ROLE), intake, stack, clock)
            await Serving(intake).serve(stop, hangup or asyncio.Event(), charge)


async def _start(options: IntakeOptions, stack: AsyncExitStack, clock: Clock) -> tuple[Intake, Charge | None]:
    """An intake that can answer. If it does not have its role yet, also what waits for that."""
    database = await stack.enter_async_context(open_database(options.db, clock=clock))
    found = await _found(database, options)
    bus = await stack.enter_async_context(
        Bus(options.nats, ROLE, connect_timeout_s=None, credentials=source_of(options.creds), tls=options.tls)
    )
    bus.stream_bytes = options.stream_bytes
    bus.loops.reasons.append(database.trouble)
    taking = asyncio.create_task(take_role(database, ROLE, clock))  # noqa: TID251 - see charge()
    stack.push_async_callback(end_tasks, taking)
    version = (await database.read(newest)).version  # first: what changes from now on is loaded again
    recorded = await _recorded_unless(taking, database)
    if recorded is None:
        await taking
        found, taken = await _begin_role(database, bus, found, clock)
        intake = Intake(found.configuration, taken.catalog, database, bus, clock)
        intake.keeper.number, intake.group.role = taken.number, ROLE
        if found.refused is not None:
            intake.keeper.note(found.refused)
    else:
        number, found = recorded
        catalog = with_shares(await database.read(read_catalog), found.configuration)
        intake = Intake(found.configuration, catalog, database, bus, clock)
        intake.keeper.number = number
        bus.stream_replicas = found.configuration.settings.nats.replicas
    intake.runnable.local = options.local
    if options.creds is not None:
        intake.entry.gateways.use(options.creds.parent)
    await intake.prepare(version)
    if recorded is None:
        return intake, None
    log.info("ready to answer users, beside the holder of the role")

    async def charge() -> None:
        await taking
        intake.group.role = ROLE
        now_found, taken = await _begin_role(database, bus, await _found(database, options), clock)
        if now_found.refused is not None:
            intake.keeper.note(now_found.refused)
        await intake.take_charge(now_found, taken)

    return intake, charge


async def _found(database: Database, options: IntakeOptions) -> Found:
    """The configuration to begin with, for the first holder."""
    is_given = options.config.is_dir() and options.config != shipped("config")
    recorded = None if is_given or not database.has_standbys else await find_recorded(database)
    return recorded or await find(database, options.config)


async def _recorded_unless(taking: asyncio.Task[None], database: Database) -> tuple[int, Found] | None:
    """The recorded configuration, with which to answer while another intake has the role; None once it is free."""
    refused: int | None = None
    while True:
        await asyncio.wait([taking], timeout=FREE_S if database.has_standbys else None)
        if taking.done():
            return None
        with suppress(Unavailable):
            number = await database.read(lambda c: newest_configuration(c.exec_driver_sql))
            try:
                if number not in (None, refused) and (found := await find_recorded(database)) is not None:
                    return number or 0, found
            except ConfigurationError as error:
                refused = number
                log.error("waiting, since configuration %s can't be used here: %s", number, error)  # noqa: TRY400


async def _begin_role(database: Database, bus: Bus, found: Found, clock: Clock) -> tuple[Found, Taken]:
    """Put the configuration into force, and make the streams. This process has the role."""
    if database.has_followed(ROLE):
        found = await find_recorded(database) or found
    await database.write(lambda c: forget_idle_queues(c, clock()), role=ROLE)
    taken = await start_with(database, ROLE, found, clock())
    bus.stream_replicas = found.configuration.settings.nats.replicas
    await ensure_streams(bus)
    limit = found.configuration.settings.node.max_requeues
    await until_done(bus, partial(take_over, bus, recorder(database, ROLE, limit, clock)))
    return found, taken

"""The notifier: tells users and programs what has happened to jobs, as far as the administrator allows.

It follows the events of jobs, notes in the records what is to be sent, and sends it until each receiver has taken it or
a day is over. It is the one service that talks to the world, so its connection to the broker reaches little.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.diag_request import answer_diag
from rankd.bus.health import answer_health
from rankd.bus.tls_files import TlsFiles
from rankd.config.configuration import Configuration
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.notification.pace import Pauses
from rankd.identity.credentials import source_of
from rankd.services.notifier.dispatch import Ways, send
from rankd.services.notifier.event_reader import EventReader
from rankd.services.notifier.mail import Mailer
from rankd.services.notifier.sender import Sender
from rankd.services.notifier.statistic import NotifierStatistic
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.configuration_follower import ConfigurationFollower, Prepared
from rankd.services.runtime.life import probe, run_until, stay_alive, unless
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.of_services import of_notifier
from rankd.services.runtime.service_configuration import starting_configuration
from rankd.services.runtime.standby import take_role
from rankd.store.engine.database import Database
from rankd.store.engine.url import open_database
from rankd.store.record.notification import Parcel
from rankd.wire.diag import NotifierDiag
from rankd.wire.subject import NOTIFIER, inbox_prefix

log = logging.getLogger("rankd.notifier")


class NotifierOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker, the database and the configuration are, and the file of the key for signatures."""

    nats: str
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    db: str
    config: Path
    key: Path
    pauses: Pauses = Pauses()


async def run(
    options: NotifierOptions, stop: asyncio.Event, clock: Clock = time.time, exported: Exported | None = None
) -> None:
    """Notify until ``stop``."""
    async with AsyncExitStack() as stack:
        notifier = await unless(stop, _start(options, stack, clock))
        if notifier is not None:
            log.info("ready")
            await notifier.export(exported or Exported(NOTIFIER))
            await run_until(stop, *notifier.loops(), drain=notifier.sender.drain)


async def _start(options: NotifierOptions, stack: AsyncExitStack, clock: Clock) -> Notifier:
    database = await stack.enter_async_context(open_database(options.db, clock=clock))
    number, configuration = await starting_configuration(database, options.config)
    inbox = None if options.creds is None else inbox_prefix(NOTIFIER)
    credentials = source_of(options.creds)
    bus = Bus(options.nats, NOTIFIER, connect_timeout_s=None, credentials=credentials, tls=options.tls, inbox=inbox)
    await stack.enter_async_context(bus)
    bus.loops.reasons.append(database.trouble)
    await take_role(database, NOTIFIER, clock)
    mailer = Mailer()
    stack.callback(mailer.close)
    notifier = Notifier(configuration, database, bus, Ways(mailer, options.key), options.pauses, clock)
    await notifier.listen(number)
    healthy = partial(probe, database, bus)
    await answer_health(bus, NOTIFIER, healthy)
    await answer_diag(bus, NOTIFIER, healthy, notifier.diag, notifier.statistic.reset)
    database.note_ready(NOTIFIER)
    return notifier


class Notifier:
    """The parts of one notifier, and the settings that they use."""

    def __init__(
        self, configuration: Configuration, database: Database, bus: Bus, ways: Ways, pauses: Pauses, clock: Clock
    ) -> None:
        self.statistic = NotifierStatistic(clock)
        self._settings = configuration.settings.notifications
        self._database = database
        self._bus = bus
        self._ways = ways
        settings = lambda: self._settings  # noqa: E731 - the present ones, for both
        self.sender = Sender(database, bus, self._send, settings, self.statistic, clock, pauses)
        self.reader = EventReader(database, bus, settings, self.statistic, self.sender.wake.set, clock)
        self._changed = asyncio.Event()
        self._follower = ConfigurationFollower(database, lambda new: new.settings.notifications, self._changed.set)

    async def listen(self, number: int | None) -> None:
        """Hear of newer configurations than this one."""
        self._follower.start_from(number)
        await self._follower.listen(self._bus)

    async def export(self, exported: Exported) -> None:
        """Export its figures, and answer who asks for them."""
        exported.add(lambda: of_notifier(self.diag(), self.statistic.durations.histograms))
        exported.configuration(self._follower.diag)
        await exported.answer(self._bus)

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Everything that runs until the end."""
        return (
            self._bus.supervise(),
            stay_alive(self._database, NOTIFIER, self._bus.loops),
            self._follower.run(self._bus.loops),
            self._adopt(),
            self.reader.follow(),
            self.reader.sweep(),
            self.sender.run(),
        )

    def diag(self) -> NotifierDiag:
        """What ``rankd diag`` shows about the notifier."""
        return self.statistic.shown(self.sender.load.total, self._follower.diag())

    async def _send(self, parcel: Parcel, settings: NotificationSettings) -> None:
        await send(parcel, self._ways, settings)

    async def _adopt(self) -> None:
        """Use each new configuration as soon as it is read."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._follower.adopt(self._use)

    async def _use(self, new: Prepared[NotificationSettings]) -> None:
        self._settings = new.parts

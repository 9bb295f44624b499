"""Reads the configured adapters, each with its own period, independently of the prioritizer's passes.

An input is checked as a whole, stored, and used from the next full pass on. A failed reading changes only the adapter's
row (view ``adapter``), which shows the reason. Failures are logged and published when they begin, when their reason
changes, and when they end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from rankd.bus.connection import LOST, Bus
from rankd.config.configuration import Configuration
from rankd.config.plugin import factor_range
from rankd.core.adapter.input import Input, Range
from rankd.core.errors import ConfigurationError, Unavailable
from rankd.core.model.setting import AdapterSettings
from rankd.services.prioritizer.adapter_process import START_S, read_adapter
from rankd.services.prioritizer.adapter_worker import Answer, Task
from rankd.services.prioritizer.role import ROLE
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import Patience, announce, end_tasks
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.record.adapter import InForce, StoredInput, in_force, laid_over, stored_inputs
from rankd.store.record.adapter_result import names_came, register_adapters, save_failure, save_input, save_reading
from rankd.store.record.catalog import Catalog, read_catalog, sync_names
from rankd.store.record.configuration import newest_configuration
from rankd.wire.message import AdapterEvent
from rankd.wire.subject import adapter_event

log = logging.getLogger("rankd.adapter")

STORE_BOUND_S = 60.0
"""Seconds for checking and storing an input, added to an adapter's time limit."""

Use = Callable[[InForce, Catalog], Awaitable[None]]


class AdapterReader:
    """Reads the adapters of ``stated``, a configuration without inputs. ``use`` is called with every change."""

    def __init__(self, stated: Configuration, database: Database, bus: Bus, use: Use, clock: Clock) -> None:
        self._stated = stated
        self._database = database
        self._bus = bus
        self._use = use
        self._clock = clock
        self._one_by_one = asyncio.Lock()
        """Held while one input is combined with the last inputs of the other adapters."""
        self.number: int | None = None
        """The configuration's number; None if it is not a recorded one."""
        self._group: asyncio.TaskGroup | None = None
        self._reading: list[asyncio.Task[None]] = []
        self._catalog: Catalog | None = None
        self._digests: dict[str, str] = {}
        self._failing: dict[str, str] = {}
        """The last published reason of each failing adapter."""

    async def start(self) -> None:
        """Use the inputs that an earlier run has stored."""
        adapters = self._stated.settings.adapters
        await self._database.write(lambda c: register_adapters(c, adapters), role=ROLE)
        found = await self._database.read(lambda c: in_force(c.exec_driver_sql, self._stated))
        self._digests = {stored.name: stored.digest for stored in found.inputs}
        self._catalog = await self._database.write(
            lambda c: self._restored_names(c, found.configuration, self._clock()), role=ROLE
        )
        await self._use(found, self._catalog)

    async def run(self) -> None:
        """Read all adapters until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._begin(self._group)
            await asyncio.Event().wait()

    def _begin(self, group: asyncio.TaskGroup) -> None:
        adapters = self._stated.settings.adapters
        self._reading = [group.create_task(self._read_for_ever(adapter)) for adapter in adapters]

    async def exchange(self, stated: Configuration, number: int | None) -> None:
        """Read the adapters of another configuration from now on. Readings that are under way are cancelled."""
        await end_tasks(*self._reading)
        for adapter in self._stated.settings.adapters:
            self._bus.loops.drop(_loop_name(adapter))
        kept = {adapter.name for adapter in stated.settings.adapters}
        self._failing = {name: message for name, message in self._failing.items() if name in kept}
        self._stated, self.number = stated, number
        await self.start()
        if self._group is not None:
            self._begin(self._group)

    def _restored_names(self, connection: Connection, effective: Configuration, now: float) -> Catalog:
        """Add the names in the stored inputs. Some may be missing if another configuration was in force meanwhile."""
        catalog = self._names(connection, effective, now)
        names_came(connection)
        return catalog

    def _names(self, connection: Connection, effective: Configuration, now: float) -> Catalog:
        """Add the names of the configuration, unless a newer one has replaced it, whose names are there already."""
        if newest_configuration(connection.exec_driver_sql) != self.number:
            return read_catalog(connection)
        return sync_names(connection, effective, now)

    async def _read_for_ever(self, adapter: AdapterSettings) -> None:
        loop = self._bus.loops.add(_loop_name(adapter), adapter.time_limit_s + START_S + STORE_BOUND_S)
        patience = Patience(f"readings of adapter '{adapter.name}'", log)
        while True:
            begun = time.monotonic()
            try:
                await self.read_once(adapter)
            except Unavailable as error:
                loop.beat()
                await patience.wait(error)
                continue
            patience.over()
            rest_s = max(adapter.period_s - (time.monotonic() - begun), adapter.period_s / 10)
            loop.beat(rest_s)
            await asyncio.sleep(rest_s)

    async def read_once(self, adapter: AdapterSettings) -> None:
        """Read one adapter; store and use its input."""
        allowed = Range()
        if adapter.factor is not None:
            lowest, highest = factor_range(adapter.factor)
            allowed = Range(lowest=lowest, highest=highest)
        digest = self._digests.get(adapter.name, "")
        task = Task(settings=adapter, directory=self._stated.directory, allowed=allowed, digest=digest)
        answer = await read_adapter(task)
        at = self._clock()
        if answer.error:
            await self._fail(adapter, answer.error, at)
        elif answer.digest == digest:
            await self._note_same(adapter, answer, at)
        else:
            await self._use_changed(adapter, answer, at)

    async def _fail(self, adapter: AdapterSettings, message: str, at: float) -> None:
        await self._database.write(lambda c: save_failure(c, adapter.name, message, at), role=ROLE)
        if self._failing.get(adapter.name) == message:
            return
        self._failing[adapter.name] = message
        kept = "its last good input stays in force" if adapter.name in self._digests else "it has no good input yet"
        log.warning("adapter '%s' fails, %s: %s", adapter.name, kept, message)
        await self._publish(AdapterEvent(adapter=adapter.name, event="failed", at=at, message=message))

    async def _note_same(self, adapter: AdapterSettings, answer: Answer, at: float) -> None:
        """Handle an unchanged input. Usage without its own times now counts as of this reading."""
        await self._database.write(lambda c: save_reading(c, adapter.name, answer.rows, at), role=ROLE)
        await self._recover(adapter, answer, at)
        if adapter.input == "usage" and self._catalog is not None:
            async with self._one_by_one:
                found = await self._database.read_in_thread(lambda c: in_force(c.exec_driver_sql, self._stated))
                await self._use(found, self._catalog)

    async def _use_changed(self, adapter: AdapterSettings, answer: Answer, at: float) -> None:
        given = await asyncio.to_thread(msgspec.json.decode, answer.input, type=Input)
        stored = StoredInput(name=adapter.name, input=given, read_at=at, digest=answer.digest)
        try:
            async with self._one_by_one:
                found = await self._database.read_in_thread(lambda c: self._with(c, stored))
                catalog = await self._database.write(lambda c: self._store(c, stored, found.configuration), role=ROLE)
                self._digests[adapter.name], self._catalog = answer.digest, catalog
                await self._use(found, catalog)
        except ConfigurationError as error:
            await self._fail(adapter, error.message, at)
            return
        await self._recover(adapter, answer, at)
        log.info("adapter '%s' has a new input: %d rows", adapter.name, answer.rows)
        await self._publish(AdapterEvent(adapter=adapter.name, event="changed", at=at, rows=answer.rows))
        await announce(self._bus, ROLE)

    def _with(self, connection: Connection, new: StoredInput) -> InForce:
        """The inputs in force, including the new one.

        Raises:
            ConfigurationError: the inputs together do not make an account tree.
        """
        adapters = self._stated.settings.adapters
        known = {one.name: one for one in stored_inputs(connection.exec_driver_sql, adapters)} | {new.name: new}
        return laid_over(self._stated, [known[a.name] for a in adapters if a.name in known], new.name)

    async def _recover(self, adapter: AdapterSettings, answer: Answer, at: float) -> None:
        if self._failing.pop(adapter.name, None) is not None:
            log.info("adapter '%s' works again", adapter.name)
            await self._publish(AdapterEvent(adapter=adapter.name, event="recovered", at=at, rows=answer.rows))

    async def _publish(self, event: AdapterEvent) -> None:
        try:
            await self._bus.publish(adapter_event(event.adapter), event)
        except LOST as error:  # the view shows the state
            log.info("the event of adapter '%s' was not sent: %s", event.adapter, error)

    def _store(self, connection: Connection, stored: StoredInput, effective: Configuration) -> Catalog:
        """Store the input and its names in one transaction."""
        save_input(connection, stored)
        return self._names(connection, effective, stored.read_at)


def _loop_name(adapter: AdapterSettings) -> str:
    return f"adapter {adapter.name}"

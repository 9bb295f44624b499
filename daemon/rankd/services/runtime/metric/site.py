"""The figures of the whole site: read from the records, and asked of the other services over the bus.

Reading the records is one transaction on a thread and a connection of its own, which can't write. Its result is kept
for some time, however many ask, and a query that takes too long is ended. The figures say how old they are.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rankd.bus.connection import Bus
from rankd.bus.figures import ask_figures
from rankd.bus.outage import Spell
from rankd.config.configuration import read_configuration
from rankd.core.errors import ConfigurationError, RankdError
from rankd.core.metric.figure import Figure
from rankd.core.model.server_url import is_postgres
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.metric.of_records import MOST_USERS, site_figures_of
from rankd.services.runtime.metric.scrape import Shared
from rankd.store.engine.reading import ReadConnection, Reader, open_for_reading, tuples
from rankd.store.look.site_figures import site_figures
from rankd.store.record.configuration import newest_configuration, newest_recorded

log = logging.getLogger("rankd.metrics")

AGE_S, RESTS = 5.0, 20.0
"""The records are read at most so often, and at most one twentieth of the time."""
LONGEST_S = 60.0
"""Then a query is ended. Counting a million pending jobs took 8 to 17 s on two busy cores."""
WAIT_S = 2.0
"""Seconds that a scrape waits for a new reading. Then it gets the last one."""
SERVICES_AGE_S = 2.0


class RecordFigures:
    """Figures of the records of one database."""

    def __init__(self, database: Path | str, clock: Clock, wait_s: float = WAIT_S) -> None:
        text = str(database)
        self._place: Path | str = text if is_postgres(text) else Path(text)
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "metrics")
        self._spell = Spell(log)
        self._configuration = -1
        self._most_users = 0
        self._wait_s = wait_s
        self._until = float("-inf")
        self._reading: asyncio.Future[list[Figure]] | None = None
        self._last: list[Figure] = []

    async def read(self, wait_s: float | None = None) -> list[Figure]:
        """The figures of the last reading, or that it failed; none while the first one takes long.

        ``wait_s``: how long to wait for a new one at most, if not as usual.
        """
        reading = self._reading
        if reading is None and time.monotonic() >= self._until:
            reading = self._reading = asyncio.get_running_loop().run_in_executor(self._thread, self._made)
        if reading is not None:
            await asyncio.wait([reading], timeout=self._wait_s if wait_s is None else wait_s)
            if reading.done() and self._reading is reading:
                self._reading = None
                self._last = reading.result()
        return self._last

    def close(self) -> None:
        """Read nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _made(self) -> list[Figure]:
        began, begun = self._clock(), time.monotonic()
        try:
            found = self._read()
        except RankdError as error:
            self._spell.note(f"the records can't be read: {error.message}", "the records still can't be read")
            return [Figure("rankd_records_readable", 0)]
        finally:
            ended = time.monotonic()
            self._until = ended + max(AGE_S, RESTS * (ended - begun))
        self._spell.over("the records can be read again")
        took = Figure("rankd_records_read_seconds", ended - begun)
        return [*found, took, Figure("rankd_records_timestamp_seconds", began), Figure("rankd_records_readable", 1)]

    def _read(self) -> list[Figure]:
        connection = open_for_reading(self._place)
        ending = threading.Timer(LONGEST_S, _interrupt, [connection])
        ending.daemon = True
        ending.start()
        try:
            self._see_privacy(connection)
            return site_figures_of(site_figures(connection, self._most_users), self._clock())
        finally:
            ending.cancel()
            connection.close()

    def _see_privacy(self, reader: Reader) -> None:
        """Name users only where the configuration in force lets everybody see all jobs."""
        query = lambda sql, *given: tuples(reader, sql, *given)  # noqa: E731 - the store's way to ask
        number = newest_configuration(query)
        if number is None or number == self._configuration:
            return
        found = newest_recorded(query)
        try:
            configuration = None if found is None else read_configuration(found.directory, found.files)
        except ConfigurationError:  # of another version of rankd
            configuration = None
        is_open = configuration is not None and configuration.settings.privacy.jobs == "all"
        self._configuration, self._most_users = number, MOST_USERS * is_open


def _interrupt(connection: ReadConnection) -> None:
    """End the query that runs. It then fails with ``database_unreadable``."""
    ending = getattr(connection, "interrupt", None) or getattr(connection, "cancel", None)  # SQLite's, PostgreSQL's
    if ending is not None:
        ending()


class ServiceFigures:
    """Figures that other services of the site answer over the bus. One that does not answer is left out."""

    def __init__(self, bus: Bus, services: Sequence[str]) -> None:
        self._bus = bus
        self._services = services
        self._shared = Shared(self._made, SERVICES_AGE_S)

    async def read(self) -> Iterable[Figure]:
        """The figures of all of them."""
        return await self._shared.get()

    async def _made(self) -> list[Figure]:
        found = await asyncio.gather(*(ask_figures(self._bus, name) for name in self._services))
        return [figure for one in found for figure in one]

"""The records as the page reads them: on threads of its own, each look in one read transaction, which can't write.

A look that takes too long is ended where the database can do so, so that no visitor holds a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from rankd.config.configuration import read_configuration
from rankd.core.errors import Unavailable
from rankd.core.model.server_url import is_postgres
from rankd.core.model.setting import Settings
from rankd.store.engine.reading import ReadConnection, Reader, open_for_reading, tuples
from rankd.store.record.configuration import newest_recorded

T = TypeVar("T")

THREADS = 2
MOST_WAITING = 64
"""Looks that wait for a thread. A further one is refused at once."""
LONGEST_S = 10.0


class Records:
    """Reads one database."""

    def __init__(self, database: str) -> None:
        self._place: Path | str = database if is_postgres(database) else Path(database)
        self._threads = ThreadPoolExecutor(THREADS, "look")
        self._waiting = 0

    async def look(self, query: Callable[[Reader], T]) -> T:
        """The result of a query.

        Raises:
            Unavailable: ``busy``, ``no_database``, ``no_schema``, ``database_unreadable``.
        """
        if self._waiting >= MOST_WAITING:
            raise Unavailable("busy", "too many look at the page at this moment; load it again in a second")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._look, query)
        finally:
            self._waiting -= 1

    def _look(self, query: Callable[[Reader], T]) -> T:
        connection = open_for_reading(self._place)
        ending = threading.Timer(LONGEST_S, _interrupt, [connection])
        ending.daemon = True
        ending.start()
        try:
            return query(connection)
        finally:
            ending.cancel()
            connection.close()

    async def settings(self) -> Settings | None:
        """Those of the configuration in force; None before the intake has recorded one."""

        def read(reader: Reader) -> Settings | None:
            found = newest_recorded(lambda sql, *given: tuples(reader, sql, *given))
            return None if found is None else read_configuration(found.directory, found.files).settings

        return await self.look(read)

    def close(self) -> None:
        """Wait for no look any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _interrupt(connection: ReadConnection) -> None:
    """End the query that runs. The look then fails with ``database_unreadable``."""
    ending = getattr(connection, "interrupt", None) or getattr(connection, "cancel", None)  # SQLite's, PostgreSQL's
    if ending is not None:
        ending()

"""The records as the page reads them: in the database, or where it has none, at the intake over the bus.

Both ways run the same looks (:mod:`rankd.store.look.web`), each in one read transaction, which can't write.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Unavailable
from rankd.core.model.server_url import is_postgres
from rankd.services.web.asking import Asking
from rankd.store.engine.reading import ReadConnection, open_for_reading
from rankd.store.look.web.look import Look
from rankd.wire.web import PageLook, PageLooked

T = TypeVar("T")

THREADS = 2
MOST_WAITING = 64
"""Looks that wait for a thread, or for an answer. A further one is refused at once."""
LONGEST_S = 10.0
Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""A look, who looks, and what is given."""
AT_A_TIME = 4
"""Looks that the intake is asked for at a time. It answers one of a user's at a time."""


class Records(Protocol):
    """Where the page looks."""

    where: str
    """What does not answer if a look fails, as a code of errors."""

    async def look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        """The result of a look.

        Raises:
            Refused: the asker may not see it, or there is no such thing.
            Unavailable: ``busy``, or the records can't be read now.
        """

    def close(self) -> None:
        """Wait for no look any more."""


class DatabaseRecords:
    """Reads one database, on threads of its own.

    A look that takes too long is ended where the database can do so, so that no visitor holds a thread.
    """

    where = "no_database"

    def __init__(self, database: str) -> None:
        self._place: Path | str = database if is_postgres(database) else Path(database)
        self._threads = ThreadPoolExecutor(THREADS, "look")
        self._waiting = 0

    async def look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        """See :class:`Records`."""
        _check_room(self._waiting)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._look, look, asker, given)
        finally:
            self._waiting -= 1

    def _look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        connection = open_for_reading(self._place)
        ending = threading.Timer(LONGEST_S, _interrupt, [connection])
        ending.daemon = True
        ending.start()
        try:
            return look.read(connection, asker, given)
        finally:
            ending.cancel()
            connection.close()

    def close(self) -> None:
        """See :class:`Records`."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class BusRecords:
    """Asks the intake. It decides what each visitor sees.

    ``owner``: the user who can always sign in, for whom the page asks what belongs to no visitor. Such a look shows
    what a user without jobs sees. Tabs that want the same at the same time share one request.
    """

    where = "no_answer"

    def __init__(self, asking: Asking, owner: str) -> None:
        self._asking = asking
        self._owner = owner
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._asked: dict[Key, asyncio.Task[Any]] = {}

    async def look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        """See :class:`Records`."""
        key = (look.name, asker.user, tuple(sorted(given.items())))
        if (task := self._asked.get(key)) is None:
            _check_room(len(self._asked))
            task = self._asked[key] = asyncio.get_running_loop().create_task(self._ask(look, asker.user, given))
            task.add_done_callback(lambda done: self._end(key, done))
        found: T = await asyncio.shield(task)
        return found

    async def _ask(self, look: Look[T], user: str, given: Mapping[str, str]) -> T:
        wanted = PageLook(look=look.name, given=dict(given), nobody=not user)
        async with self._turns:
            answer = await self._asking.ask(
                user or self._owner, "page.look", wanted, PageLooked, LONGEST_S, is_look=True
            )
        try:
            return msgspec.json.decode(zlib.decompress(answer.data), type=look.kind)
        except (msgspec.MsgspecError, zlib.error) as error:
            message = "the intake's answer can't be read: it is of another version of rankd than this page"
            raise Unavailable("other_version", message) from error

    def _end(self, key: Key, done: asyncio.Task[Any]) -> None:
        self._asked.pop(key, None)
        if not done.cancelled():
            done.exception()  # who waits for it gets it; perhaps nobody does any more

    def close(self) -> None:
        """See :class:`Records`."""
        for task in self._asked.values():
            task.cancel()


def _check_room(waiting: int) -> None:
    if waiting >= MOST_WAITING:
        raise Unavailable("busy", "too many look at the page at this moment; load it again in a second")


def _interrupt(connection: ReadConnection) -> None:
    """End the query that runs. The look then fails with ``database_unreadable``."""
    ending = getattr(connection, "interrupt", None) or getattr(connection, "cancel", None)  # SQLite's, PostgreSQL's
    if ending is not None:
        ending()

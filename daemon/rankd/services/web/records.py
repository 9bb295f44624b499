"""The records as the page reads them: in the database, or where it has none, at the intake over the bus.

Both ways run the same looks (:mod:`rankd.store.look.web`), each in one read transaction, which can't write.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused, Unavailable
from rankd.core.model.server_url import is_postgres
from rankd.services.web.asking import Asking
from rankd.services.web.turns import Turns
from rankd.store.engine.reading import open_for_reading
from rankd.store.engine.time_limit import time_limit
from rankd.store.look.web.look import Look
from rankd.store.look.web.site import NEWEST, PLACES, SETTINGS
from rankd.wire.web import PageLook, PageLooked

T = TypeVar("T")

THREADS = 2
"""For visitors. The page's own looks have one more."""
LONGEST_S = 10.0
Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""A look, who looks, and what is given."""
AT_A_TIME, OF_ONE_USER = 4, 2
"""Looks of visitors that the intake is asked for at a time. It answers one of a user's at a time."""
OWN = frozenset({NEWEST.name, SETTINGS.name, PLACES.name})
"""What the page itself looks at. No visitor's looks hold it up."""


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

    A look that takes too long is interrupted, so that no visitor holds a thread.
    """

    where = "no_database"

    def __init__(self, database: str) -> None:
        self._place: Path | str = database if is_postgres(database) else Path(database)
        self._threads = ThreadPoolExecutor(THREADS + 1, "look")
        self._turns = Turns(THREADS, per_user=1)
        self._tasks = _Tasks()

    async def look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        """See :class:`Records`."""
        return await asyncio.shield(self._tasks.begin(self._in_turn(look, asker, given)))  # a thread goes on, too

    async def _in_turn(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        async with self._turns.own() if look.name in OWN else self._turns.turn(asker.user):
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._look, look, asker, given)

    def _look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        connection = open_for_reading(self._place)
        try:
            with time_limit(connection, LONGEST_S):
                return look.read(connection, asker, given)
        finally:
            connection.close()

    def close(self) -> None:
        """See :class:`Records`."""
        self._tasks.end()
        self._threads.shutdown(wait=False, cancel_futures=True)


class BusRecords:
    """Asks the intake. It decides what each visitor sees.

    ``owner``: the user who can always sign in, for whom the page asks what belongs to no visitor. Such a look shows
    what a user without jobs sees. Tabs that want the same share one request as long as it has not been sent: what is
    answered was read after each of them asked, so who has just changed something sees the change.
    """

    where = "no_answer"

    def __init__(self, asking: Asking, owner: str) -> None:
        self._asking = asking
        self._owner = owner
        self._turns = Turns(AT_A_TIME, OF_ONE_USER)
        self._tasks = _Tasks()
        self._unsent: dict[Key, asyncio.Task[Any]] = {}
        """Requests that wait for a turn."""

    async def look(self, look: Look[T], asker: Submitter, given: Mapping[str, str]) -> T:
        """See :class:`Records`."""
        key = (look.name, asker.user, tuple(sorted(given.items())))
        if (task := self._unsent.get(key)) is None:
            task = self._unsent[key] = self._tasks.begin(self._in_turn(key, look, asker.user, given))
        found: T = await asyncio.shield(task)
        return found

    async def _in_turn(self, key: Key, look: Look[T], user: str, given: Mapping[str, str]) -> T:
        is_sent = False
        try:
            async with self._turns.own() if look.name in OWN else self._turns.turn(user):
                del self._unsent[key]
                is_sent = True
                return await self._ask(look, user, given)
        finally:
            if not is_sent:
                del self._unsent[key]

    async def _ask(self, look: Look[T], user: str, given: Mapping[str, str]) -> T:
        wanted = PageLook(look=look.name, given=dict(given), nobody=not user)
        try:
            answer = await self._asking.ask(
                user or self._owner, "page.look", wanted, PageLooked, LONGEST_S, is_look=True
            )
        except Refused as error:
            if look.name not in OWN:
                raise
            message = f"rankd refuses what the page asks for its owner, '{self._owner}': {error.message}"
            raise Refused(error.code, message, error.field, status=error.status) from error
        try:
            return msgspec.json.decode(zlib.decompress(answer.data), type=look.kind)
        except (msgspec.MsgspecError, zlib.error) as error:
            message = "the intake's answer can't be read: it is of another version of rankd than this page"
            raise Unavailable("other_version", message) from error

    def close(self) -> None:
        """See :class:`Records`."""
        self._tasks.end()


class _Tasks:
    """Looks that go on although nobody may wait for them any more."""

    def __init__(self) -> None:
        self._all = set[asyncio.Task[Any]]()

    def begin(self, look: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(look)
        self._all.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, done: asyncio.Task[Any]) -> None:
        self._all.discard(done)
        if not done.cancelled():
            done.exception()  # who waits for it gets it; perhaps nobody does any more

    def end(self) -> None:
        for task in self._all:
            task.cancel()

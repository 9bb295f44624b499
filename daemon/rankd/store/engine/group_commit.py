"""Group commit: work that arrives within a moment shares one transaction and one fsync.

Clients take turns, so a client that sends a flood delays only itself. The works of one client are done in the order of
their arrival. Works of the same kind, such as insertions, are done by one call. If the transaction fails, each half of
its works is done again in its own transaction, and so on, so that an impossible or faulty one does not fail the others.
If it is not known whether the transaction was committed, no work is done again: only the asker can repeat it, by its
key.

Where other processes do such works too, a :class:`Watch` compares what this one knows with the records at the beginning
of each transaction. From then on, nobody else can write until its end. Only then are the works chosen: what arrives
while others write belongs to this transaction, not to the next.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection, Row

from rankd.core.errors import RoleLost, Unavailable, UnknownOutcome
from rankd.store.engine.database import Database

T = TypeVar("T")
Part = TypeVar("Part")

Together = Callable[[Connection, Sequence[Part]], Sequence[T]]
"""Does several works at once; returns a result for each."""

IDLE_S = 5.0
MAX_WAITING = 10_000
PART = 250
"""This many works of one request share a transaction, so that others can write in between."""
TRIES = 8
"""How often a group is begun again because others have changed what it is based on."""


class News(IntEnum):
    """Who has to be notified of a work. A group notifies as widely as its widest work."""

    NOBODY = 0
    OF_NEW_JOBS = 1
    """Who ranks, publishes or shows new jobs. They are not started before they are ranked, unless that is overdue."""
    EVERYBODY = 2


class Outdated(Unavailable):
    """Another process has changed what a work was decided by. Decided again, it may be done."""

    def __init__(self) -> None:
        super().__init__("busy", "another instance has just changed what this was checked against; try again")


class Behind(Outdated):
    """This process has to read what others have changed before it can do any work."""


class Watch(Protocol):
    """Compares what this process knows with the records. ``query`` says in one row what they are."""

    query: str

    def begin(self, connection: Connection, found: Row[Any]) -> None:
        """Look what others have written. It runs on the writer's thread, as the first part of a transaction.

        Raises:
            Behind: what the works are based on has changed. ``on_rollback`` has to read it again.
        """

    def settle(self, left: Row[Any] | None) -> None:
        """The transaction has ended; nothing was written yet since. It left this row; None: it was not committed."""


class _Work(NamedTuple):
    """What to do with which part, who waits for it, and who is notified of it."""

    do: Together[Any, Any]
    part: Any
    future: asyncio.Future[Any]
    news: News | Callable[[Any], News]
    weight: int

    def news_of(self, result: object) -> News:
        """Who is notified now that this is its result."""
        return self.news if isinstance(self.news, News) else self.news(result)


class _Turns:
    """The waiting works by client. After its turn, a client comes after all others. Used by the loop and the writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_client: dict[str, deque[_Work]] = {}
        self.count = 0
        self.weight = 0

    def put(self, client: str, work: _Work) -> None:
        with self._lock:
            self._by_client.setdefault(client, deque()).append(work)
            self.count += 1
            self.weight += work.weight

    def take(self, group: list[_Work], most: int) -> None:
        """Move works to this group, until it has ``most`` jobs or none waits."""
        weight = sum(work.weight for work in group)
        with self._lock:
            while self.count and weight < most:
                group.append(self._next())
                weight += group[-1].weight

    def _next(self) -> _Work:
        client = next(iter(self._by_client))
        works = self._by_client.pop(client)
        if len(works) > 1:
            self._by_client[client] = works
        work = works.popleft()
        self.count -= 1
        self.weight -= work.weight
        return work


class GroupCommit:
    """``await group.do(work)`` returns once the work is durable. Run :meth:`run` in a task group."""

    def __init__(
        self,
        database: Database,
        role: str | None,
        after_commit: Callable[[News], Awaitable[None]],
        on_rollback: Callable[[], Awaitable[None]],
        watch: Watch | None = None,
    ) -> None:
        self.role = role
        """The role that this process must hold to write; None: it needs none."""
        self._database = database
        self._watch = watch
        self._after_commit = after_commit
        self._on_rollback = on_rollback
        self._waiting = _Turns()
        self._some = asyncio.Event()

    @property
    def size(self) -> int:
        """This many jobs, or other works, share a transaction if they wait together."""
        return self._database.group_size

    async def do(
        self,
        work: Callable[[Connection], T],
        *,
        client: str = "",
        news: News | Callable[[T], News] = News.EVERYBODY,
        weight: int = 1,
    ) -> T:
        """Do ``work`` in one of the next transactions, when it is the turn of ``client``.

        ``news`` says who is notified of it, maybe by its result. ``weight`` is the number of jobs that it writes.

        Raises:
            Unavailable: ``busy``: too many works wait; try again later. Or any error that the work raised.
        """
        return await self._put(lambda c, _: [work(c)], None, client=client, news=news, weight=weight)

    async def do_together(
        self,
        work: Together[Part, T],
        part: Part,
        *,
        client: str = "",
        news: News | Callable[[T], News] = News.EVERYBODY,
        weight: int = 1,
    ) -> T:
        """As :meth:`do`, but one call of ``work`` does this part and all waiting parts of the same ``work``."""
        return await self._put(work, part, client=client, news=news, weight=weight)

    async def _put(
        self, do: Together[Part, T], part: Part, *, client: str, news: News | Callable[[T], News], weight: int
    ) -> T:
        if self._waiting.count >= MAX_WAITING:
            raise Unavailable("busy", "too many requests are waiting; try again in a second")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put(client, _Work(do, part, future, news, weight))
        self._some.set()
        return await future

    async def run(self, beat: Callable[[], None] = lambda: None) -> None:
        """Commit groups until cancelled. Calls ``beat`` once a round, and regularly while there is no work."""
        while True:
            beat()
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await self._until_some()
            if self._waiting.count:
                await self.run_once()

    async def run_once(self) -> None:
        """Commit waiting works, at least one."""
        await self._until_some()
        if self._waiting.weight < self.size:
            await asyncio.sleep(0)  # other tasks that are ready to run may add to the group
        group = list[_Work]()
        if not self._watch:
            self._waiting.take(group, self.size)
        news = await self._commit(group, more=self._watch is not None)
        if news is not News.NOBODY:
            await self._after_commit(news)

    async def _until_some(self) -> None:
        while not self._waiting.count:
            self._some.clear()
            await self._some.wait()

    async def _commit(self, group: list[_Work], tries: int = TRIES, *, more: bool = False) -> News:
        """Commit a group; returns who has to be notified. ``more``: what waits may still join it."""
        try:
            results = await self._write(group, more=more)
        except RoleLost as error:
            self._give_up(group, error)
            raise
        except (Behind, UnknownOutcome) as error:
            await self._on_rollback()
            if isinstance(error, Behind) and tries:
                return await self._commit(group, tries - 1, more=more)
            self._give_up(group, error)
            return News.NOBODY
        except Exception as error:  # noqa: BLE001 - it is raised again in the task that waits for the work
            await self._on_rollback()
            if len(group) <= 1:
                self._give_up(group, error)
                return News.NOBODY
            half = len(group) // 2
            return max([await self._commit(part) for part in (group[:half], group[half:])])
        for work, result in zip(group, results, strict=True):
            if not work.future.done():
                work.future.set_result(result)
        told = (work.news_of(result) for work, result in zip(group, results, strict=True))
        return max(told, default=News.NOBODY)

    def _give_up(self, group: list[_Work], error: Exception) -> None:
        """Tell those who wait. If no works were chosen yet, the transaction has not begun: it could do none of them."""
        if not group:
            self._waiting.take(group, self.size)
        _reject(group, error)

    async def _write(self, group: list[_Work], *, more: bool) -> list[Any]:
        watch = self._watch
        if watch is None:
            return await self._database.write(lambda c: _done(c, group), role=self.role, brief=True)

        def watched(connection: Connection, found: Row[Any]) -> list[Any]:
            watch.begin(connection, found)
            if more:
                self._waiting.take(group, self.size)
            return _done(connection, group)

        left = None
        try:
            results, left = await self._database.write_observed(watch.query, watched, role=self.role, brief=True)
        finally:
            watch.settle(left)
        return results


def _done(connection: Connection, group: Sequence[_Work]) -> list[Any]:
    """Do all works in their order; returns their results."""
    results: list[Any] = []
    for do, works in groupby(group, lambda work: work.do):
        results += do(connection, [work.part for work in works])
    return results


def _reject(group: Sequence[_Work], error: Exception) -> None:
    for work in group:
        if not work.future.done():
            work.future.set_exception(error)

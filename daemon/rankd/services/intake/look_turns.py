"""Queues for requests that only look. They wait for each other, and no other request waits for them.

They have their own threads and database connections, so that health and changes never wait for them. A few requests of
each user are answered at a time. The others wait, and users take turns. A request beyond the limit of waiting ones is
refused at once, with an error that asks its sender to wait. If others ask, too, a user whose requests wait rests after
each one (:mod:`.rests`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import TypeVar

from rankd.core.errors import Unavailable
from rankd.services.intake.rests import Rests
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database

T = TypeVar("T")


class LookTurns:
    """``slots`` requests at a time, at most ``per_user`` of one user; at most ``waiting`` of each user wait."""

    def __init__(self, database: Database, rests: Rests, *, slots: int, per_user: int, waiting: int) -> None:
        self._database = database
        self._rests = rests
        self._free = slots
        self._per_user = per_user
        self._most_waiting = waiting
        self._running = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self.refused = 0
        """Number of requests that were refused because too many waited."""

    async def look(self, user: str, query: Callable[[Connection], T]) -> T:
        """Run a query in a read transaction, on a thread for looking requests.

        Raises:
            Unavailable: ``too_many_requests``: this user already has the most requests that may wait.
        """
        await self._begin(user)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await self._database.look(query)
        finally:
            rest_s = self._rests.after(user, loop.time() - began) if user in self._waiting else 0.0
            self._free += 1
            if rest_s:
                loop.call_later(rest_s, self._end, user)
                self._next()
            else:
                self._end(user)

    async def _begin(self, user: str) -> None:
        if self._free and self._running[user] < self._per_user and not self._waiting:
            self._take(user)
            return
        own = self._waiting.setdefault(user, deque())
        if len(own) >= self._most_waiting:
            self.refused += 1
            message = f"{len(own)} looking requests of {user} wait already; wait for their answers before sending more"
            raise Unavailable("too_many_requests", message, status=429)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        own.append(turn)
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free += 1
                self._end(user)
            raise

    def _take(self, user: str) -> None:
        self._free -= 1
        self._running[user] += 1

    def _end(self, user: str) -> None:
        self._running[user] -= 1
        if not self._running[user]:
            del self._running[user]
        self._next()

    def _next(self) -> None:
        """Start waiting requests while there are free slots: one of each user in turn."""
        while self._free:
            user = next((user for user in self._waiting if self._running[user] < self._per_user), None)
            if user is None:
                return
            own = self._waiting.pop(user)
            turn = own.popleft()
            if own:
                self._waiting[user] = own  # after all others
            if not turn.cancelled():
                self._take(user)
                turn.set_result(None)

"""Turns for looks: no visitor takes all of them, and the page itself always has one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rankd.core.errors import Unavailable

MOST_WAITING = 64
"""Looks of all visitors that wait for a turn. A further one is refused at once."""
MOST_OF_ONE = 8
"""Looks of one user that wait."""
MOST_OF_NOBODY = 32
"""Looks that wait of the visitors without a name, who are many, and of whom the page can't tell one from another."""


class Turns:
    """``slots`` looks at a time, at most ``per_user`` of one user. The page's own have one more turn for themselves."""

    def __init__(self, slots: int, per_user: int) -> None:
        self._slots = slots
        self._per_user = per_user
        self._all = asyncio.Semaphore(slots)
        self._page = asyncio.Semaphore(1)
        self._of = dict[str, asyncio.Semaphore]()
        self._here = Counter[str]()
        """Looks of each user that have a turn or wait for one."""

    @asynccontextmanager
    async def own(self) -> AsyncGenerator[None]:
        """The page's own turn."""
        async with self._page:
            yield

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncGenerator[None]:
        """A turn for this visitor; an empty name: one without a name.

        Raises:
            Unavailable: ``busy``: too many wait, of this user or in all.
        """
        room = MOST_OF_ONE if user else MOST_OF_NOBODY
        if self._here[user] >= self._per_user + room:
            whose = f"of '{user}'" if user else "of visitors who are not signed in"
            raise Unavailable("busy", f"{room} looks {whose} wait already; load the page again in a second")
        if self._here.total() >= self._slots + MOST_WAITING:
            raise Unavailable("busy", "too many look at the page at this moment; load it again in a second")
        self._here[user] += 1
        try:
            async with self._of.setdefault(user, asyncio.Semaphore(self._per_user)), self._all:
                yield
        finally:
            self._here[user] -= 1
            if not self._here[user]:
                del self._here[user], self._of[user]

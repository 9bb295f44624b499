"""How many jobs are on their way into the database, for counts that can't tell whether they saw those."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

PATIENCE_S = 1.0
"""How long a count waits for what is being stored. The number is then too large until the next count."""


class InFlight(Generic[Name]):
    """Numbers by name: a user, an account, or all."""

    def __init__(self) -> None:
        self._begun: Counter[Name] = Counter()
        self._ended: Counter[Name] = Counter()
        self._lost: Counter[Name] = Counter()
        self._waiting: defaultdict[Name, list[tuple[int, asyncio.Future[None]]]] = defaultdict(list)

    def begin(self, name: Name, number: int) -> None:
        """So many are to be stored."""
        self._begun[name] += number

    def end(self, name: Name, number: int, *, stored: bool) -> None:
        """So many are durable, or could not be stored."""
        self._ended[name] += number
        if not stored:
            self._lost[name] += number
        for place, future in self._waiting.pop(name, ()):
            if place > self._ended[name]:
                self._waiting[name].append((place, future))
            elif not future.done():
                future.set_result(None)

    def number(self, name: Name) -> int:
        """How many are being stored now."""
        return self._begun[name] - self._ended[name]

    def total(self, name: Name) -> int:
        """How many were stored or are being stored, since the start."""
        return self._begun[name] - self._lost[name]

    async def settled(self, name: Name) -> None:
        """Wait until as many have been stored as are being stored now, but not longer than :data:`PATIENCE_S`."""
        if not self.number(name):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[name].append((self._begun[name], future))
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await future

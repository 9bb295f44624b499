"""Which allocations the agent knows, and when it may forget them. No I/O.

An allocation is forgotten once it has ended and its end is recorded by the intake, which never gives it again then.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key")

REMEMBERED = 200_000
"""So many forgotten allocations are still refused, in case an answer of the intake comes late."""


class Entry(Generic[Key]):
    """One allocation."""

    __slots__ = ("ended", "job", "key", "started_at", "terminate")

    def __init__(self, key: Key, job: int) -> None:
        self.key = key
        self.job = job
        self.ended = False
        self.started_at: float | None = None
        self.terminate: Callable[[str], None] | None = None


class Ledger(Generic[Key]):
    """All allocations that are known."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry[Key]] = {}
        # a plain dictionary looks for its first key behind all that were deleted
        self._forgotten: OrderedDict[Key, None] = OrderedDict()
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key, job: int) -> Entry[Key]:
        """A new allocation, which has not ended yet."""
        entry = Entry(key, job)
        self.entries[key] = entry
        self._open += 1
        self._idle.clear()
        return entry

    def has_seen(self, key: Key) -> bool:
        """Whether it is or was here."""
        return key in self.entries or key in self._forgotten

    def end(self, entry: Entry[Key]) -> None:
        """It has ended."""
        if entry.ended:
            return
        entry.ended = True
        entry.terminate = None
        self._open -= 1
        if not self._open:
            self._idle.set()

    async def all_ended(self) -> None:
        """Wait until nothing runs."""
        await self._idle.wait()

    def jobs(self) -> set[int]:
        """Jobs that run, or whose end is still to be recorded."""
        return {entry.job for entry in self.entries.values()}

    def running(self) -> list[Key]:
        """What has not ended."""
        return [entry.key for entry in self.entries.values() if not entry.ended]

    def reported(self, keys: Iterable[Key]) -> list[Key]:
        """The intake has recorded these ends; returns what is forgotten for it."""
        over = [key for key in dict.fromkeys(keys) if key in self.entries and self.entries[key].ended]
        for key in over:
            del self.entries[key]
            self._forgotten[key] = None
        while len(self._forgotten) > REMEMBERED:
            self._forgotten.popitem(last=False)
        return over

"""Which allocations the agent knows, and when it may forget them. No I/O.

An allocation is forgotten once it has ended and the intake has recorded its end. From then on the intake never sends it
again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key")

REMEMBERED = 200_000
"""The agent still refuses this many forgotten allocations, in case an answer of the intake arrives late."""


class Entry(Generic[Key]):
    """One allocation."""

    __slots__ = ("devices", "ended", "job", "key", "started_at", "terminate")

    def __init__(self, key: Key, job: int, devices: Sequence[str]) -> None:
        self.key = key
        self.job = job
        self.devices = devices
        self.ended = False
        self.started_at: float | None = None
        self.terminate: Callable[[str], None] | None = None


class Ledger(Generic[Key]):
    """All known allocations."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry[Key]] = {}
        # finding the first key of a plain dictionary is slow after many deletions: it skips every deleted entry
        self._forgotten: OrderedDict[Key, None] = OrderedDict()
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key, job: int, devices: Sequence[str] = ()) -> Entry[Key]:
        """Add a new allocation, which has not ended yet, with the ids of its devices."""
        entry = Entry(key, job, devices)
        self.entries[key] = entry
        self._open += 1
        self._idle.clear()
        return entry

    def has_seen(self, key: Key) -> bool:
        """Whether this allocation is known, or was known and is forgotten."""
        return key in self.entries or key in self._forgotten

    def is_known(self, key: Key) -> bool:
        """Whether the allocation runs, or its end is not recorded yet."""
        return key in self.entries

    def end(self, entry: Entry[Key]) -> None:
        """Mark the allocation as ended."""
        if entry.ended:
            return
        entry.ended = True
        entry.terminate = None
        self._open -= 1
        if not self._open:
            self._idle.set()

    async def all_ended(self) -> None:
        """Wait until no allocation runs."""
        await self._idle.wait()

    def jobs(self) -> set[int]:
        """The jobs that run, and those whose end is not recorded yet."""
        return {entry.job for entry in self.entries.values()}

    def is_running(self, key: Key) -> bool:
        """Whether the allocation has not ended."""
        return key in self.entries and not self.entries[key].ended

    def running(self) -> list[Key]:
        """The keys of the allocations that have not ended."""
        return [entry.key for entry in self.entries.values() if not entry.ended]

    def holders(self) -> dict[str, Key]:
        """The allocation that holds each device, of those that have not ended."""
        return {id_: entry.key for entry in self.entries.values() if not entry.ended for id_ in entry.devices}

    def reported(self, keys: Iterable[Key]) -> list[Key]:
        """The intake has recorded the ends of these allocations. Forgets those that have ended, and returns them."""
        over = [key for key in dict.fromkeys(keys) if key in self.entries and self.entries[key].ended]
        for key in over:
            del self.entries[key]
            self._forgotten[key] = None
        while len(self._forgotten) > REMEMBERED:
            self._forgotten.popitem(last=False)
        return over

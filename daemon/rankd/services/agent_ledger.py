"""Which allocations the agent knows, and when it may forget them. No I/O.

An allocation is forgotten once it has ended, its end is in the report stream, and the order that asked for it will
not come again (its acknowledgement is confirmed). Forgotten earlier, a redelivery would start it a second time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key")

REMEMBERED = 200_000
"""So many forgotten allocations are still refused, in case the same one is published twice."""


class Entry(Generic[Key]):
    """One allocation. ``job`` and ``sequence`` are 0 if it was cancelled before its start arrived."""

    __slots__ = ("ended", "job", "key", "reported", "sequence", "settled", "started_at", "terminate")

    def __init__(self, key: Key, job: int, sequence: int) -> None:
        self.key = key
        self.job = job
        self.sequence = sequence
        self.ended = False
        self.reported = False
        self.settled = False
        self.started_at: float | None = None
        self.terminate: Callable[[str], None] | None = None


class Ledger(Generic[Key]):
    """All allocations that are known."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry[Key]] = {}
        self._by_sequence: dict[int, list[Entry[Key]]] = {}
        # a plain dictionary looks for its first key behind all that were deleted
        self._forgotten: OrderedDict[Key, None] = OrderedDict()
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key, job: int, sequence: int) -> Entry[Key]:
        """A new allocation, which has not ended yet."""
        entry = Entry(key, job, sequence)
        self.entries[key] = entry
        self._note_sequence(entry)
        self._open += 1
        self._idle.clear()
        return entry

    def has_seen(self, key: Key) -> bool:
        """Whether it is or was here."""
        return key in self.entries or key in self._forgotten

    def identify(self, entry: Entry[Key], job: int, sequence: int) -> None:
        """The start of an allocation that was cancelled before has come."""
        entry.job, entry.sequence, entry.reported = job, sequence, False
        self._note_sequence(entry)

    def _note_sequence(self, entry: Entry[Key]) -> None:
        if entry.sequence:
            self._by_sequence.setdefault(entry.sequence, []).append(entry)

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

    def running(self) -> list[Key]:
        """What has not ended."""
        return [entry.key for entry in self.entries.values() if not entry.ended]

    def unsettled(self) -> list[int]:
        """Sequences of orders of which it is not known that they won't come again."""
        return list(self._by_sequence)

    def settle(self, sequence: int) -> list[Key]:
        """This order won't come again; returns what is forgotten for it."""
        entries = self._by_sequence.pop(sequence, [])
        for entry in entries:
            entry.settled = True
        return self._forget(entries)

    def reported(self, keys: Iterable[Key]) -> list[Key]:
        """These ends are in the stream; returns what is forgotten for it."""
        entries = [self.entries[key] for key in keys if key in self.entries]
        for entry in entries:
            entry.reported = True
        return self._forget(entries)

    def _forget(self, entries: Iterable[Entry[Key]]) -> list[Key]:
        over = [entry.key for entry in entries if entry.ended and entry.reported and entry.settled]
        for key in over:
            del self.entries[key]
            self._forgotten[key] = None
        while len(self._forgotten) > REMEMBERED:
            self._forgotten.popitem(last=False)
        return over

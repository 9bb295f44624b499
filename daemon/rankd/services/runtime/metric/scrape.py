"""One making of figures for all who ask at about the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """The result of ``make``, at most ``age_s`` old.

    Callers that come while it is made wait for the same. So however many ask, it is made at most once in ``age_s``.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[T]],
        age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._age_s = age_s
        self._clock = clock
        self._lock = asyncio.Lock()
        self._made: T | None = None
        self._until = float("-inf")

    async def get(self) -> T:
        """The result; made again if it is too old."""
        async with self._lock:
            if self._made is None or self._clock() >= self._until:
                self._made = await self._make()
                self._until = self._clock() + self._age_s
            return self._made

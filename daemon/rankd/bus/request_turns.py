"""Whose request is answered next: askers take turns, and each has bounds of its own. Callers give the time.

Requests wait in the queue of their asker. The next one comes from the next asker in turn who has less than
:data:`MOST_RUNNING` requests (or :data:`MOST_RUNNING_BYTES`) being answered, and has not used up its rate. So one asker
with thousands of requests delays another one's by a few of them, and an asker above its rate delays only itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from rankd.bus.token_bucket import TokenBuckets
from rankd.core.errors import Unavailable

T = TypeVar("T")

MAX_REQUESTS = 10_000
MAX_BYTES = 256 * 2**20
MAX_REQUESTS_PER_ASKER = 2_000
MAX_BYTES_PER_ASKER = 64 * 2**20
"""The most requests and bytes that wait or are being answered, of all askers and of one. Others are refused."""
ALWAYS_REQUESTS = 100
ALWAYS_BYTES = 4 * 2**20
"""An asker with less than this is refused by its own bounds only: several others who flood leave it this room."""

MOST_RUNNING = 512
"""The most requests of an asker that are being answered. Two groups of a commit are as fast as thousands."""
MOST_RUNNING_BYTES = 2 * 2**20
"""Large requests of an asker are answered two at a time: decoding and checking them takes the processor."""

TOKEN_BYTES = 4_096
"""A request costs a token, and one more for each of these."""
LONGEST_PAUSE_S = 1.0
"""An asker above its rate is looked at again after this time at most, since its rate may have changed."""


class Turn(NamedTuple, Generic[T]):
    """A request whose turn it is."""

    asker: str
    request: T
    n_bytes: int


class _Load:
    """A number of requests, and their bytes."""

    __slots__ = ("n_bytes", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.n_bytes = 0

    def add(self, requests: int, n_bytes: int) -> None:
        self.requests += requests
        self.n_bytes += n_bytes

    def is_over(self, more_bytes: int, most_requests: int, most_bytes: int) -> bool:
        """Whether one more request is too much. A single request is always accepted."""
        return self.requests >= most_requests or (self.requests > 0 and self.n_bytes + more_bytes > most_bytes)


class _Asker(Generic[T]):
    """One asker's requests. ``pauses``: until its bucket of tokens has filled."""

    __slots__ = ("all", "pauses", "running", "waiting")

    def __init__(self) -> None:
        self.all = _Load()
        self.running = _Load()
        self.waiting: deque[tuple[T, int]] = deque()
        self.pauses = False

    def may_run(self) -> bool:
        """Whether its oldest waiting request may be answered beside those that are."""
        if self.pauses or not self.waiting:
            return False
        return not self.running.is_over(self.waiting[0][1], MOST_RUNNING, MOST_RUNNING_BYTES)


class RequestTurns(Generic[T]):
    """The requests of all askers. ``rate`` returns an asker's tokens per second; None without a limit."""

    def __init__(self, rate: Callable[[str], float | None]) -> None:
        self._rate = rate
        self._buckets = TokenBuckets()
        self._askers: dict[str, _Asker[T]] = {}
        """Those who have requests that wait or are being answered."""
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._paused: list[tuple[float, str]] = []
        self._is_unlimited = False
        self.load = _Load()
        """Of all requests that wait or are being answered."""

    def add(self, name: str, request: T, n_bytes: int) -> Unavailable | None:
        """Let a request wait for its turn; returns the refusal instead if there are too many."""
        asker: _Asker[T] = self._askers.get(name) or _Asker()
        if refusal := self._overload(name, asker.all, n_bytes):
            return refusal
        self._askers[name] = asker
        self.load.add(1, n_bytes)
        asker.all.add(1, n_bytes)
        asker.waiting.append((request, n_bytes))
        self._note(name, asker)
        return None

    def take(self, now: float) -> Turn[T] | None:
        """The next request to be answered; None if none may be now. The caller calls :meth:`finish` once it is."""
        while self._paused and self._paused[0][0] <= now:
            self._resume(heappop(self._paused)[1])
        while self._ready:
            name, _ = self._ready.popitem(last=False)
            asker = self._askers[name]
            request, n_bytes = asker.waiting[0]
            if self._pauses(name, asker, 1 + n_bytes // TOKEN_BYTES, now):
                continue
            asker.waiting.popleft()
            asker.running.add(1, n_bytes)
            self._note(name, asker)  # after all others
            return Turn(name, request, n_bytes)
        return None

    def finish(self, name: str, n_bytes: int) -> None:
        """A request of :meth:`take` is answered."""
        asker = self._askers[name]
        for load in (self.load, asker.all, asker.running):
            load.add(-1, -n_bytes)
        if asker.all.requests:
            self._note(name, asker)
        else:
            del self._askers[name]

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` may have a request now."""
        return bool(self._ready)

    @property
    def next_at(self) -> float | None:
        """When an asker above its rate may ask again. None if no asker is above its rate."""
        return self._paused[0][0] if self._paused else None

    def lift_rates(self) -> None:
        """Answer what waits without regard to rates: the service ends."""
        self._is_unlimited = True
        while self._paused:
            self._resume(heappop(self._paused)[1])

    def _note(self, name: str, asker: _Asker[T]) -> None:
        if name not in self._ready and asker.may_run():
            self._ready[name] = None

    def _pauses(self, name: str, asker: _Asker[T], cost: int, now: float) -> bool:
        """Spend the tokens of a request; if they are not there yet, let the asker pause until they are."""
        rate = None if self._is_unlimited else self._rate(name)
        if rate is None:
            return False
        if wait_s := self._buckets.spend(name, cost, rate, now):
            asker.pauses = True
            heappush(self._paused, (now + min(wait_s, LONGEST_PAUSE_S), name))
            return True
        return False

    def _resume(self, name: str) -> None:
        asker = self._askers[name]
        asker.pauses = False
        self._note(name, asker)

    def _overload(self, name: str, own: _Load, n_bytes: int) -> Unavailable | None:
        if own.is_over(n_bytes, MAX_REQUESTS_PER_ASKER, MAX_BYTES_PER_ASKER):
            return self._too_many(name, own)
        is_small = not own.is_over(n_bytes, ALWAYS_REQUESTS, ALWAYS_BYTES)
        if not is_small and self.load.is_over(n_bytes, MAX_REQUESTS, MAX_BYTES):
            return Unavailable("busy", "too many requests are waiting; try again in a second")
        return None

    def _too_many(self, name: str, own: _Load) -> Unavailable:
        rate = self._rate(name)
        limit = "" if rate is None else f" and admission.max_requests_per_s, {rate:g}, are answered a second"
        message = (
            f"{own.requests} requests of yours with {own.n_bytes} bytes wait: {MAX_REQUESTS_PER_ASKER} and"
            f" {MAX_BYTES_PER_ASKER} bytes may{limit}; wait for their answers, then try again"
        )
        return Unavailable("too_many_waiting", message, status=429)

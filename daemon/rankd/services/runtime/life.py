"""What all services do in the same way: start, stop, wait, wake up, announce commits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.bus.liveness import BOUND_S, Loops
from rankd.bus.outage import Spell
from rankd.core.errors import Unavailable
from rankd.store.engine.connection import ping
from rankd.store.engine.database import Database
from rankd.wire.codec import UNREADABLE
from rankd.wire.message import Committed
from rankd.wire.subject import WAKE

log = logging.getLogger("rankd")

T = TypeVar("T")
T_Error = TypeVar("T_Error", bound=BaseException)

CANCEL_AGAIN_S = 0.5
RETRY_S = 1.0
PROBE_S = 2
"""Seconds in which the broker has to answer when health is asked."""


async def unless(stop: asyncio.Event, starting: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``starting``; None if ``stop`` came first. Then ``starting`` is cancelled where it waits."""
    try:
        async with asyncio.TaskGroup() as group:
            task, stopping = group.create_task(starting), group.create_task(stop.wait())
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(task, stopping)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return None if task.cancelled() else task.result()


async def run_until(
    stop: asyncio.Event, *loops: Coroutine[Any, Any, None], drain: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run endless loops together until ``stop``; an error in one ends all. They still run during ``drain``."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop) for loop in loops]
        try:
            await stop.wait()
            if drain is not None:
                await drain()
        finally:  # the group itself cancels only once
            await end_tasks(*tasks)


async def when(event: asyncio.Event, loop: Coroutine[Any, Any, None]) -> None:
    """Run an endless loop from the moment at which ``event`` is set."""
    try:
        await event.wait()
    except BaseException:
        loop.close()
        raise
    await loop


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel until it works: Python 3.11's ``wait_for``, in nats-py, loses one that coincides with an answer."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


async def is_set(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait until the event is set, for at most ``timeout_s`` seconds; returns whether it is set."""
    try:
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    except TimeoutError:
        return False


def first_of(errors: BaseExceptionGroup[T_Error]) -> T_Error:
    """The first error of a group that is not itself a group."""
    first = errors.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


class Patience:
    """Waits for temporary failures, such as a full disk, to end. ``what`` names the waiting loop in the log."""

    def __init__(self, what: str, logger: logging.Logger) -> None:
        self._what = what
        self._spell = Spell(logger)

    async def wait(self, error: Unavailable) -> None:
        """Handle a failed round; returns when it is time for another one."""
        self._spell.note(f"{self._what} wait: {error.message}", f"{self._what} still wait: {error.message}")
        await asyncio.sleep(RETRY_S)

    def over(self) -> None:
        """Note that a round succeeded."""
        self._spell.over(f"{self._what} continue")


async def stay_alive(database: Database, role: str, loops: Loops) -> None:
    """Record signs of life of a role's holder until cancelled.

    Raises:
        RoleLost: another instance has taken the role, or may have.
    """
    loop, patience = loops.add("signs of life", 2 * BOUND_S), Patience("signs of life", log)
    while True:
        loop.beat()
        try:
            pause_s = await database.stay_alive(role)
        except Unavailable as error:
            await patience.wait(error)
        else:
            patience.over()
            await asyncio.sleep(pause_s)


class Wake:
    """Set by commits of other services (a hint on the bus). :meth:`wait` also returns after its time without one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Set it."""
        self._event.set()

    def take(self) -> bool:
        """Whether it is set; clears it."""
        was_set = self._event.is_set()
        self._event.clear()
        return was_set

    async def listen(
        self, bus: Bus, *subjects: str, besides: str | None = None, skips: Callable[[Committed], bool] | None = None
    ) -> None:
        """Set it at every message on these subjects, except for commits of the service ``besides`` (usually itself).

        ``skips``: whether it is not set for this commit either.
        """

        async def on_message(message: Msg) -> None:
            committed = _committed(bus, message) if besides is not None and message.subject == WAKE else None
            if committed is None or (committed.service != besides and not (skips and skips(committed))):
                self._event.set()

        for subject in subjects:
            await bus.listen(subject, on_message)

    async def wait(self, timeout_s: float) -> None:
        """Wait until it is set or the time is over; clears it."""
        if await is_set(self._event, timeout_s):
            self._event.clear()


def _committed(bus: Bus, message: Msg) -> Committed | None:
    """Who has committed; None if the message can't be read, which is counted."""
    try:
        return msgspec.json.decode(message.data, type=Committed)
    except UNREADABLE:
        bus.unreadable["wake-up"] += 1
        return None


async def announce(bus: Bus, service: str, *, only_new_jobs: bool = False) -> None:
    """Announce that the database has something new. A service that misses this reads the database soon anyway."""
    try:
        await bus.publish(WAKE, Committed(service=service, only_new_jobs=only_new_jobs))
    except LOST:
        return


async def probe(database: Database, bus: Bus) -> str:
    """Ask the database and the bus; returns how long each took, as text.

    Raises:
        Unavailable: one of them does not answer.
    """
    begun = time.perf_counter()
    await database.read(ping)
    read = time.perf_counter()
    try:
        if not bus.client.is_connected:  # without a connection, nats-py's flush succeeds
            raise Unavailable("bus_unavailable", f"there is no connection to the broker at {bus.url}")
        await bus.client.flush(PROBE_S)
    except LOST as error:
        raise Unavailable("bus_unavailable", f"the broker at {bus.url} does not answer: {error}") from error
    return f"database {(read - begun) * 1000:.1f} ms, bus {(time.perf_counter() - read) * 1000:.1f} ms"

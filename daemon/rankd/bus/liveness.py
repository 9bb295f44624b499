"""Which endless loops a service has, and whether each of them still runs.

Every endless loop registers itself with :meth:`Loops.add` and calls :meth:`Loop.beat` once per round. The permanent
subscriptions of a connection and the connection itself are loops as well. Health names a loop that is late. A loop that
stays late ends the process, so that its supervisor starts it again from the records. A service that waits for
something known, such as a broker that is away, is not ready either, but it is not ended.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger("rankd.liveness")

LOOK_EVERY_S = 1.0
RECENT_S = 15.0
"""A failure is a reason for waiting for this many seconds. A waiting loop fails again within this time."""
IDLE_S = 5.0
"""A loop that waits for work beats at least this often, even without work."""
BOUND_S = 30.0
"""Usual bound of a loop: the longest time from one beat to the next."""
LATE_BOUNDS = 4.0
LEAST_END_S = 120.0
"""A service ends itself once a loop has been late for this many of its bounds, but never before this many seconds."""
HUNG = 70
"""Exit status of a service that ends itself because one of its loops hangs."""

Clock = Callable[[], float]


class Loop:
    """One endless loop. ``bound_s``: the most seconds from one beat to the next."""

    def __init__(self, name: str, bound_s: float, clock: Clock) -> None:
        self.name = name
        self.bound_s = bound_s
        self.hung_s = 0.0
        """Seconds that it has been late without a known reason for waiting."""
        self.task = asyncio.current_task() if _is_running() else None
        self._clock = clock
        self._beaten_at = clock()

    def beat(self, rest_s: float = 0.0) -> None:
        """Note that a round, or a long step of one, is done. ``rest_s``: the loop will now sleep for this long."""
        self._beaten_at = self._clock() + rest_s
        self.hung_s = 0.0

    @property
    def silent_s(self) -> float:
        """Seconds since the last beat, without the sleep that it announced."""
        return max(self._clock() - self._beaten_at, 0.0)

    @property
    def is_late(self) -> bool:
        """Whether its next beat is overdue."""
        return self.silent_s > self.bound_s

    @property
    def end_s(self) -> float:
        """Seconds of hanging after which the service ends itself."""
        return max(LATE_BOUNDS * self.bound_s, LEAST_END_S)

    def described(self) -> str:
        """Which loop hangs, since when, and what happens next, as a message."""
        since = datetime.fromtimestamp(time.time() - self.silent_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (
            f"the loop '{self.name}' has hung since {since} ({self.silent_s:.0f} s; a round takes {self.bound_s:.0f} s"
            f" at most). The service ends itself after {self.end_s:.0f} s; restart it to be quicker"
        )


class Failure:
    """The last failure of an action that is repeated until it succeeds, as a reason for waiting."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._at = 0.0

    def note(self, reason: str) -> None:
        """Note another failure."""
        self._reason, self._at = reason, time.monotonic()

    def over(self) -> None:
        """Note a success."""
        self._reason = None

    def reason(self) -> str | None:
        """Why it failed last; None if it has succeeded since or was not tried again."""
        return self._reason if time.monotonic() - self._at < RECENT_S else None


class Loops:
    """The loops of one service, and what it may be waiting for."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.reasons: list[Callable[[], str | None]] = []
        """Functions that return what the service waits for at present, as a sentence without a full stop, or None."""
        self._by_name: dict[str, Loop] = {}

    def add(self, name: str, bound_s: float = BOUND_S) -> Loop:
        """Register a loop. The loop itself calls this before its first round. A loop of the same name is replaced."""
        loop = self._by_name[name] = Loop(name, bound_s, self._now)
        return loop

    async def run(self, name: str, bound_s: float, work: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """Run ``work``, to which the loop's beat is given. The loop is that of the task which awaits this."""
        await work(self.add(name, bound_s).beat)

    def _now(self) -> float:
        return self.clock()

    def drop(self, name: str) -> None:
        """Forget a loop that was ended on purpose."""
        self._by_name.pop(name, None)

    @property
    def all(self) -> list[Loop]:
        """All registered loops."""
        return list(self._by_name.values())

    @property
    def late(self) -> list[Loop]:
        """The loops whose next beat is overdue."""
        return [loop for loop in self._by_name.values() if loop.is_late]

    def waits_for(self) -> list[str]:
        """What the service waits for; empty if it waits for nothing."""
        return [reason for find in self.reasons if (reason := find()) is not None]

    def verdict(self) -> str | None:
        """Why the service is not well; None if it is."""
        late, reasons = self.late, self.waits_for()
        if reasons:
            held_up = f" (held up: {', '.join(loop.name for loop in late)})" if late else ""
            return f"waiting: {'; '.join(reasons)}{held_up}"
        return "; ".join(loop.described() for loop in late) or None


class LoopWatch:
    """Checks the loops once a second. ``end`` ends the process with an exit status."""

    def __init__(self, loops: Loops, end: Callable[[int], Any] = os._exit) -> None:
        self._loops = loops
        self._end = end
        self._named = set[str]()
        self._looked_at = loops.clock()

    async def run(self) -> None:
        """Check the loops until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.run_once()

    def run_once(self) -> None:
        """Log loops that begin or stop hanging; end the process if one of them has hung for too long."""
        now = self._loops.clock()
        passed_s, self._looked_at = min(now - self._looked_at, 2 * LOOK_EVERY_S), now
        if self._loops.waits_for():
            return
        late = self._loops.late
        self._say(late)
        for loop in late:
            loop.hung_s += passed_s
            if loop.hung_s > loop.end_s:
                self._give_up(loop)

    def _say(self, late: Iterable[Loop]) -> None:
        names = {loop.name for loop in late}
        for loop in late:
            if loop.name not in self._named:
                log.warning("%s; it waits at %s", loop.described(), _where(loop.task))
        for name in self._named - names:
            log.info("the loop '%s' runs again", name)
        self._named = names

    def _give_up(self, loop: Loop) -> None:
        log.critical(
            "the loop '%s' has hung for %.0f s at %s: this service ends itself, so that it is started again",
            loop.name,
            loop.silent_s,
            _where(loop.task),
        )
        faulthandler.dump_traceback(all_threads=True)
        self._end(HUNG)


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _where(task: asyncio.Task[Any] | None) -> str:
    """The innermost line at which a task waits."""
    waiting: Any = None if task is None else task.get_coro()
    frame = None
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None) or frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None)
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"

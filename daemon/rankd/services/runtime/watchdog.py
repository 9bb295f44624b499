"""Ends a service whose event loop hangs, because then no task of the service can detect anything.

A thread checks whether the event loop still ticks. It counts its checks instead of seconds, so that a process that was
suspended does not look like one that hangs. If even this thread gets no turn, because something holds the
interpreter, a timer of the interpreter itself ends the process.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import threading
from types import TracebackType
from typing import Self

from rankd.bus.liveness import HUNG

log = logging.getLogger("rankd.liveness")

TICK_S = 1.0
END_S = 60.0
"""An event loop that does nothing for this long hangs."""
HELD_S = 180.0
"""An interpreter that runs no other thread for this long hangs."""


class EventLoopWatchdog:
    """``with EventLoopWatchdog(loop):`` while the service runs. Ends the process with status `HUNG`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, tick_s: float = TICK_S, end_s: float = END_S) -> None:
        self._loop = loop
        self._tick_s = tick_s
        self._looks = max(round(end_s / tick_s), 1)
        self._ticks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        """Start watching."""
        self._tick()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        self._over.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _tick(self) -> None:
        self._ticks += 1
        if not self._over.is_set():
            self._loop.call_later(self._tick_s, self._tick)

    def _watch(self) -> None:
        seen, silent = 0, 0
        while not self._over.wait(self._tick_s):
            faulthandler.dump_traceback_later(HELD_S, exit=True)
            silent = 0 if self._ticks != seen else silent + 1
            seen = self._ticks
            if silent >= self._looks:
                log.critical(
                    "the event loop has done nothing for %.0f s: this service ends itself, so that it is started again",
                    silent * self._tick_s,
                )
                faulthandler.dump_traceback(all_threads=True)
                os._exit(HUNG)

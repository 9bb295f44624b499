"""The process of a service: its event loop, its log, and how it reacts to signals and to the end of its parent."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import asyncio
    import logging

Main = Callable[["asyncio.Event"], Awaitable[None]]

PARENT_CHECK_S = 0.5


def serve(
    main: Main,
    name: str,
    *,
    parent_pid: int | None = None,
    log_level: str = "info",
    hangup: asyncio.Event | None = None,
    again: asyncio.Event | None = None,
) -> int:
    """Run a service's ``main`` until SIGINT, SIGTERM or the end of its parent; returns 0 if it stopped as asked.

    ``main`` gets an event. Once that is set, ``main`` finishes its round and returns. Its errors are passed on.
    ``hangup`` is set at every SIGHUP. Without it, SIGHUP does nothing, unless the terminal has gone: then it ends the
    service. ``again`` is set by a second SIGINT or SIGTERM.
    """
    import asyncio

    import uvloop

    from rankd.services.runtime.garbage_collection import search_less

    set_up_logging(log_level)
    search_less()
    uvloop.run(_until_stopped(main, name, parent_pid, Heard(stop=asyncio.Event(), hangup=hangup, again=again)))
    return 0


def set_up_logging(level: str) -> None:
    """Log to standard error: time in UTC, level, name, message. A message is one line; a traceback follows it."""
    import logging

    from rankd.cli.common.log_line import LogLine

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLine())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel("WARNING")


class Heard(NamedTuple):
    """The events that signals set: the first SIGINT or SIGTERM, each SIGHUP, a second SIGINT or SIGTERM."""

    stop: asyncio.Event
    hangup: asyncio.Event | None
    again: asyncio.Event | None


async def _until_stopped(main: Main, name: str, parent_pid: int | None, heard: Heard) -> None:
    import asyncio
    import logging
    import signal

    from rankd.services.runtime.watchdog import EventLoopWatchdog

    stop, hangup, again = heard
    loop = asyncio.get_running_loop()
    log = logging.getLogger(f"rankd.{name}")

    def on_signal(number: signal.Signals) -> None:
        log.info("%s: stopping", number.name)
        if stop.is_set() and again is not None:
            again.set()
        stop.set()

    had_terminal = _has_terminal()

    def on_hangup() -> None:
        if had_terminal and not _has_terminal():
            on_signal(signal.SIGHUP)
        elif hangup is None:
            log.info("SIGHUP: nothing to do here; the intake reads the configuration")
        else:
            hangup.set()

    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    if parent_pid is not None:
        _watch_parent(loop, parent_pid, stop, log)
    with EventLoopWatchdog(loop):
        await main(stop)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _watch_parent(loop: asyncio.AbstractEventLoop, parent: int, stop: asyncio.Event, log: logging.Logger) -> None:
    """Stop the service when its parent has ended, since no other process would stop it."""
    if os.getppid() != parent:
        log.warning("the parent process %d has gone: stopping", parent)
        stop.set()
        return
    loop.call_later(PARENT_CHECK_S, _watch_parent, loop, parent, stop, log)

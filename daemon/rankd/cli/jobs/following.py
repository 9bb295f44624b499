"""This process while it follows a job: the line about a job that waits, and the signals that come."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

from rankd.cli.jobs.terminal import size_of
from rankd.core.printable import printable

if TYPE_CHECKING:
    from rankd.cli.jobs.terminal import RawTerminal
    from rankd.client.run_job import RunningJob

OUTPUT, ERRORS = 1, 2


class StatusLine:
    """The line on standard error about a job that waits: drawn again on a terminal, else a new one for each change."""

    def __init__(self) -> None:
        self._last = ""
        self._is_terminal = os.isatty(ERRORS)

    def say(self, text: str) -> None:
        """Show the line; an empty one removes it."""
        if text == self._last:
            return
        shown = printable(text)
        if self._is_terminal:
            os.write(ERRORS, f"\r\x1b[K{shown}".encode())
        elif shown:
            os.write(ERRORS, f"{shown}\n".encode())
        self._last = text


class Signals:
    """Signals of this process, while a job is followed."""

    def __init__(self, job: RunningJob, terminal: RawTerminal | None, *, pty: bool) -> None:
        self._job = job
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._actions: dict[int, Callable[[], Any]] = {
            signal.SIGINT: lambda: self._start(job.on_interrupt(signal.SIGINT)),
            signal.SIGTERM: lambda: self._start(job.on_end(hung_up=False)),
            signal.SIGHUP: lambda: self._start(job.on_end(hung_up=True)),
        }
        if pty:
            self._actions |= {signal.SIGWINCH: self._resize, signal.SIGTSTP: self._stop}

    def __enter__(self) -> Self:
        for number, action in self._actions.items():
            self._loop.add_signal_handler(number, action)
        return self

    def happened(self, number: int) -> None:
        """A signal has come."""
        self._actions[number]()

    def __exit__(self, *_: object) -> None:
        for number in self._actions:
            self._loop.remove_signal_handler(number)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _resize(self) -> None:
        self._start(self._job.on_resize(*size_of(OUTPUT)))

    def _stop(self) -> None:
        if self._terminal:
            self._terminal.stop()
        self._resize()

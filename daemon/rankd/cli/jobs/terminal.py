"""The terminal of an interactive command: raw while the session lasts, and as it was before on every way out."""

from __future__ import annotations

import atexit
import os
import signal
import termios
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

ROWS, COLUMNS = 24, 80


class RawTerminal:
    """A context manager for the terminal at ``descriptor``. Without a terminal there, it does nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = termios.tcgetattr(descriptor) if os.isatty(descriptor) else None
        self._is_raw = False

    def __enter__(self) -> Self:
        atexit.register(self.restore)
        self.make_raw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        atexit.unregister(self.restore)

    def make_raw(self) -> None:
        """Pass every key on as a byte, Ctrl-C and Ctrl-Z too."""
        if self._before is not None:
            self._is_raw = True
            with suppress(termios.error):
                tty.setraw(self._descriptor, termios.TCSADRAIN)

    def restore(self) -> None:
        """As before. Without waiting for output: a terminal that was stopped by Ctrl-S takes none."""
        if self._before is None:
            return
        self._is_raw = False
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})  # in the background, it would stop us
        try:
            with suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def stop(self) -> None:
        """Stop this process as SIGTSTP does, with the terminal as it was; returns when it goes on, raw if it was."""
        was_raw = self._is_raw
        self.restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        if was_raw:
            self.make_raw()


def size_of(descriptor: int) -> tuple[int, int]:
    """Rows and columns; the usual ones without a terminal."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return ROWS, COLUMNS
    return size.lines or ROWS, size.columns or COLUMNS

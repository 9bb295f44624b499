"""Standard output and standard error, written whole: if the reader is slow, the writer waits.

A parent process may have made the pipe, socket or terminal non-blocking. Python then writes only what fits at once:
it raises an error in the middle of the output or, with ``PYTHONUNBUFFERED``, drops the rest without an error.

Output that can't be written is an :class:`OutputError`, which is not an ``OSError``: code that waits for the broker
takes an ``OSError`` for a lost connection. A reader that has gone stays a ``BrokenPipeError``.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from rankd.cli.common.screen import Guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer


class OutputError(Exception):
    """Standard output can't be written. ``reason`` is why; ``done`` is what the command had already done, if known."""

    def __init__(self, reason: str, done: str = "") -> None:
        super().__init__(f"the output could not be written ({reason})" + (f"; {done}" if done else ""))
        self.reason = reason


class WholeFile(io.FileIO):
    """A file whose ``write`` returns only after everything is written."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all bytes; returns their number.

        Raises:
            BrokenPipeError: the reader has gone.
            OutputError: it can't be written, such as on a full disk.
        """
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            rest = rest[self._written(rest) :]
        return size

    def _written(self, rest: memoryview) -> int:
        """How many bytes were written; 0 after waiting for room."""
        try:
            written: int | None = super().write(rest)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError("it is closed" if error.errno == errno.EBADF else error.strerror or str(error)) from None
        if written is None:
            _wait_for_room(self.fileno())
        return written or 0


def _wait_for_room(descriptor: int) -> None:
    """Return once the descriptor can be written, or its reader has gone."""
    from select import POLLOUT, poll

    waiting = poll()
    waiting.register(descriptor, POLLOUT)
    waiting.poll()


def whole(stream: TextIO) -> TextIO:
    """A stream on the same descriptor that writes everything; a stream without a descriptor is returned as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        return stream
    stream.flush()
    file = WholeFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


class Aside(Guarded):
    """Standard error: a message that can't be written there is left out, and the command goes on."""

    def write(self, text: str) -> int:
        """Write the text. Returns the number of its characters."""
        with suppress(OutputError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OutputError):
            self.unguarded.flush()


def open_closed_streams() -> None:
    """Occupy standard descriptors that the parent process closed, before a file gets one of their numbers.

    Otherwise text for standard output could end up in a database file. Reading from standard input and writing to
    standard output then fail with the same error as on a closed descriptor; standard error is dropped.
    """
    if sys.stdin is None:
        sys.stdin = open(_occupied(0, os.O_WRONLY), closefd=False)  # noqa: SIM115 - it stays open
    if sys.stdout is None:
        sys.stdout = open(_occupied(1, os.O_RDONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(_occupied(2, os.O_WRONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _occupied(descriptor: int, flags: int) -> int:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, flags)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
    return descriptor


@contextmanager
def telling(done: str) -> Iterator[None]:
    """Write at once what is printed inside. If that fails, the error also says what the command had done.

    Raises:
        OutputError: with ``done``.
    """
    try:
        yield
        sys.stdout.flush()
    except OutputError as error:
        raise OutputError(error.reason, done) from None

"""Standard output and standard error, written whole: if the reader is slow, the writer waits.

A parent process may have made the pipe, socket or terminal non-blocking. Python then writes only what fits at once:
it raises an error in the middle of the output or, with ``PYTHONUNBUFFERED``, drops the rest without an error.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class WholeFile(io.FileIO):
    """A file whose ``write`` returns only after everything is written."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all bytes; returns their number.

        Raises:
            OSError: what the system says, such as a full disk or a reader that has gone.
        """
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            written: int | None = super().write(rest)
            if written is None:
                _wait_for_room(self.fileno())
            else:
                rest = rest[written:]
        return size


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

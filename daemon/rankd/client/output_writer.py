"""Writes what comes from a session to this process's own outputs, in a thread, so that a slow reader blocks no loop."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable


class OutputWriter:
    """Writes to one descriptor, in order. ``on_error`` is called in the loop, once, if its reader has gone."""

    def __init__(self, descriptor: int, on_error: Callable[[OSError], None]) -> None:
        self._descriptor = descriptor
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._parts: queue.SimpleQueue[tuple[bytes, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, part: bytes, then: Callable[[], None]) -> None:
        """Write a part; then call ``then`` in the loop."""
        self._parts.put((part, then))

    async def close(self) -> None:
        """Write the rest. A descriptor that takes nothing is waited for, since nothing may be lost."""
        self._parts.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (item := self._parts.get()) is not None:
            part, then = item
            try:
                while part:
                    part = part[os.write(self._descriptor, part) :]
            except OSError as error:
                self._loop.call_soon_threadsafe(self._on_error, error)
                return
            self._loop.call_soon_threadsafe(then)


class Labels:
    r"""Begins each line with a label, such as the rank of the node that it came from.

    >>> labels = Labels("1: ")
    >>> labels.labelled(b"a\nb"), labels.labelled(b"c\n"), labels.rest()
    (b'1: a\n', b'1: bc\n', b'')
    """

    def __init__(self, label: str) -> None:
        self._label = label.encode()
        self._line = b""

    def labelled(self, part: bytes) -> bytes:
        """The complete lines, with labels. What has no end of line yet waits for it."""
        *lines, self._line = (self._line + part).split(b"\n")
        if len(self._line) > LONGEST_LINE:
            lines, self._line = [*lines, self._line], b""
        return b"".join(self._label + line + b"\n" for line in lines)

    def rest(self) -> bytes:
        """The last line, if it has no end."""
        line, self._line = self._line, b""
        return self._label + line + b"\n" if line else b""


LONGEST_LINE = 65_536

"""How many pages are in the write-ahead log. Read from the log itself, in SQLite's documented "WAL file format".

The log's index has the number as well. But a process that opens and closes the index file loses SQLite's locks on it.
On the log, SQLite has no locks.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8xI4x8s8x")
"""Fields of the log's header: bytes of a page, salts."""
_FRAME = struct.Struct(">8x8s8x")
"""Field of the header of each page: the salts of the log to which it was written."""


class Log(NamedTuple):
    """``frames`` is the number of pages since the log last restarted; ``salts`` change with every restart."""

    salts: bytes
    frames: int


def read_log(path: Path) -> Log:
    """The log as it is now, or was a moment ago; empty if there is no log. O(log n)."""
    try:
        with path.open("rb") as file:
            return _read(file.fileno())
    except FileNotFoundError:
        return Log(b"", 0)


def sync_log(path: Path) -> None:
    """Sync the log to the disk; does nothing if there is no log."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        os.fdatasync(file.fileno())


def _read(file: int) -> Log:
    header = os.pread(file, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        return Log(b"", 0)
    page_bytes, salts = _HEADER.unpack(header)
    size = _FRAME.size + int(page_bytes)
    low, high = 0, max(os.fstat(file).st_size - _HEADER.size, 0) // size
    while low < high:  # frames after the last one belong to an earlier log, with other salts
        middle = (low + high) // 2
        frame = os.pread(file, _FRAME.size, _HEADER.size + middle * size)
        if len(frame) == _FRAME.size and _FRAME.unpack(frame)[0] == salts:
            low = middle + 1
        else:
            high = middle
    return Log(salts, low)

"""How many pages are in the write-ahead log: read from the log itself, whose form SQLite documents ("WAL file format").

The log's index would tell as well. But a process that opens and closes that file loses the locks that SQLite has on
it; on the log it has none.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8xI4x8s8x")
"""Of the log: bytes of a page, salts."""
_FRAME = struct.Struct(">8x8s8x")
"""What precedes each page: the salts of the log that it was written to."""


class Log(NamedTuple):
    """``frames`` pages since the log began anew; ``salts`` tell one beginning from the other."""

    salts: bytes
    frames: int


def read_log(path: Path) -> Log:
    """The log as it is now, or was a moment ago; empty where there is none. O(log n)."""
    try:
        with path.open("rb") as file:
            return _read(file.fileno())
    except FileNotFoundError:
        return Log(b"", 0)


def sync_log(path: Path) -> None:
    """To the disk with what is in the log."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        os.fdatasync(file.fileno())


def _read(file: int) -> Log:
    header = os.pread(file, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        return Log(b"", 0)
    page_bytes, salts = _HEADER.unpack(header)
    size = _FRAME.size + int(page_bytes)
    low, high = 0, max(os.fstat(file).st_size - _HEADER.size, 0) // size
    while low < high:  # frames behind the last one are of an earlier log, with other salts
        middle = (low + high) // 2
        frame = os.pread(file, _FRAME.size, _HEADER.size + middle * size)
        if len(frame) == _FRAME.size and _FRAME.unpack(frame)[0] == salts:
            low = middle + 1
        else:
            high = middle
    return Log(salts, low)

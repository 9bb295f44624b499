"""How much room there is on the disk that ``rankd up`` uses, and what of it the broker's streams may take."""

from __future__ import annotations

import shutil
from pathlib import Path

from rankd.bus.connection import STREAM_BYTES
from rankd.bus.stream import LEAST_STREAM_BYTES
from rankd.core.errors import Unavailable

LEAST_FREE_BYTES = 64 * 2**20
"""``rankd up`` does not begin with less: database, logs, streams and the jobs' output share it."""

SHARE = 4
"""The streams get one part in so many of what is free."""


def free_bytes(directory: Path) -> int:
    """What is free on the file system of this directory."""
    return shutil.disk_usage(directory).free


def check_space(directory: Path) -> None:
    """Whether there is enough room to begin.

    Raises:
        Unavailable: ``no_space``, with both figures.
    """
    free = free_bytes(directory)
    if free < LEAST_FREE_BYTES:
        needed, there = _mib(LEAST_FREE_BYTES), _mib(free)
        message = f"{directory.absolute()} has {there} MiB free, and rankd needs {needed} MiB; free some, or use --dir"
        raise Unavailable("no_space", message)


def stream_bytes(directory: Path) -> int:
    """What the streams may take together: a quarter of what is free, at most `STREAM_BYTES`."""
    return min(max(free_bytes(directory) // SHARE, LEAST_STREAM_BYTES), STREAM_BYTES)


def _mib(size: int) -> int:
    return size // 2**20

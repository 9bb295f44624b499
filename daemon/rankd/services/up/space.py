"""How much room the disk of ``rankd up`` has, and how much of it the broker's streams may use."""

from __future__ import annotations

import shutil
from pathlib import Path

from rankd.bus.connection import STREAM_BYTES
from rankd.bus.wanted_stream import LEAST_STREAM_BYTES
from rankd.core.errors import Unavailable

LEAST_FREE_BYTES = 64 * 2**20
"""``rankd up`` does not start with less: database, logs, streams and the jobs' output share the disk."""

SHARE = 4
"""The streams get one part in this many of the free space."""


def free_bytes(directory: Path) -> int:
    """The free bytes on the file system of this directory."""
    return shutil.disk_usage(directory).free


def check_space(directory: Path) -> None:
    """Check that there is enough room to start.

    Raises:
        Unavailable: ``no_space``, with both figures.
    """
    free = free_bytes(directory)
    if free < LEAST_FREE_BYTES:
        needed, there = _mib(LEAST_FREE_BYTES), _mib(free)
        message = f"{directory.absolute()} has {there} MiB free, and rankd needs {needed} MiB; free some, or use --dir"
        raise Unavailable("no_space", message)


def stream_bytes(directory: Path) -> int:
    """How many bytes the streams may use together: a quarter of the free space, at most `STREAM_BYTES`."""
    return min(max(free_bytes(directory) // SHARE, LEAST_STREAM_BYTES), STREAM_BYTES)


def _mib(size: int) -> int:
    return size // 2**20

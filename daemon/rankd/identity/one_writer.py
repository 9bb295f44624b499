"""One writer at a time of the files in a site's directory: of two changes at the same time, none is lost."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_writer(directory: Path) -> Iterator[None]:
    """Hold the directory; the second writer waits. What was renamed in it is on the disk at the end.

    Don't enter it twice in one thread: it would wait for itself.

    Raises:
        OSError: the directory can't be opened.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        os.fsync(handle)
    finally:
        os.close(handle)

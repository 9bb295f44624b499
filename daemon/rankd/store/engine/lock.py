"""The exclusive lock around every write transaction and every checkpoint of one SQLite file.

SQLite before 3.51.3 can corrupt a WAL database when one connection writes while another checkpoints. Its busy handler
is also unfair. The kernel's file lock has neither fault, and is released when its process dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rankd.core.errors import Unavailable

ASK_EVERY_S = 0.05


class FileLock:
    """One open lock file; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, and hold it for the block."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def try_acquire(self) -> bool:
        """Take the lock for as long as this process lives; returns False if another process holds it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


async def acquire_or_fail(path: Path, what: str, patience_s: float = 2.0) -> FileLock:
    """A lock that is held until its ``close``. Waits ``patience_s`` seconds, in which a predecessor may end.

    Raises:
        Unavailable: ``already_running``; the message names what holds the lock.
    """
    lock = FileLock(path)
    with ExitStack() as unless_acquired:
        unless_acquired.callback(lock.close)
        deadline = time.monotonic() + patience_s
        while not lock.try_acquire():
            if time.monotonic() > deadline:
                raise Unavailable("already_running", f"another {what} is running on {path}, and goes on; stop it first")
            await asyncio.sleep(ASK_EVERY_S)  # the kernel sends no notice when a lock is free
        unless_acquired.pop_all()
    return lock

"""Checkpoints: copying the write-ahead log into the file, so that the log starts again from its beginning.

With an SQLite that allows it, writers continue meanwhile. The log starts again only if all of it is in the file when a
write begins. With writers that never pause, this does not happen by itself. So once the log is large, its last few
pages are copied under the lock. An older SQLite copies everything under the lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from rankd.store.engine.database import CHECKPOINT_PAGES
from rankd.store.engine.driver import sqlite3
from rankd.store.engine.lock import FileLock
from rankd.store.engine.wal import Log, read_log, sync_log

LARGE_LOG = 8 * CHECKPOINT_PAGES
"""From this many pages in the log on, most of them already in the file, the rest is copied under the lock."""
FEW_PAGES = 100
"""A copy under the lock begins with at most this many pages, if :data:`ROUNDS` rounds are enough for that."""
ROUNDS = 4

_KEPT: dict[tuple[int, int], int] = {}
"""Descriptors by device and inode. They stay open: closing one would release SQLite's locks on the file."""


class Checkpoint:
    """The checkpoints of one file; used by one thread at a time."""

    def __init__(self, path: Path, *, beside_writers: bool) -> None:
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._beside_writers = beside_writers
        self._copied = Log(b"", 0)
        self._connection: sqlite3.Connection | None = None

    def pages(self) -> int:
        """How many pages of the log are not in the file yet."""
        log = read_log(self._wal)
        return log.frames - self._copied.frames if log.salts == self._copied.salts else log.frames

    def run(self) -> None:
        """Copy the log into the file. Pages that are newer than an open reader's state stay in the log.

        Raises:
            sqlite3.Error, OSError: the disk is full or a device fails; the log keeps all pages.
        """
        sync_log(self._wal)  # pages that are on the disk already take no time under the lock
        if not self._beside_writers:
            self._copy_alone()
            return
        for _ in range(ROUNDS):
            self._copy()
            if self.pages() <= FEW_PAGES:
                break
        if self.pages() and read_log(self._wal).frames > LARGE_LOG:
            self._sync_file()
            self._copy_alone()

    def close(self) -> None:
        """Close the connection. The caller holds the lock."""
        if self._connection is not None:
            self._connection.close()
        self._lock.close()

    def _copy_alone(self) -> None:
        with self._lock.held():
            self._copy()

    def _copy(self) -> None:
        self._connection = self._connection or _connected(self._path)
        before = read_log(self._wal).salts
        # PASSIVE never waits: a reader that does not finish must not delay all writes
        ((_, _, copied),) = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        after = read_log(self._wal).salts
        self._copied = Log(after, copied if after == before else 0)  # a writer may have restarted the log

    def _sync_file(self) -> None:
        """Sync the copied pages, so that SQLite's own sync under the lock has little to do."""
        status = self._path.stat()
        key = (status.st_dev, status.st_ino)
        if key not in _KEPT:
            _KEPT[key] = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        os.fdatasync(_KEPT[key])


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection

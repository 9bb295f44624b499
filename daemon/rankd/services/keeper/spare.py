"""Reuses the directories of forgotten allocations, so that no file is made or removed per job.

A file system checks recently deleted files whenever it makes a new one (ext4 does so for five seconds). So an agent
that removes two files per job would slow down every new file, above all its jobs' output.

::

    <state>/spare/<n>/blank    the inode of the next ``started``, if the directory had one; nothing else
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path

MOST = 1_000
BLANK = "blank"


class SpareDirectories:
    """Used by several threads. Blocks briefly."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._free: deque[Path] = deque()
        self._numbers = count()

    def begin(self) -> None:
        """Remove the spare directories of an earlier agent, which may be half emptied."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(mode=0o700, exist_ok=True)

    def make(self, directory: Path) -> None:
        """Make a directory that does not exist yet.

        Raises:
            FileExistsError: it exists.
        """
        if directory.exists():  # a rename would replace an empty one
            raise FileExistsError(directory)
        try:
            self._free.popleft().rename(directory)
        except (IndexError, FileNotFoundError):
            directory.mkdir(mode=0o700)

    def keep(self, directory: Path) -> bool:
        """Move a directory away, with any content; returns False if the caller must remove it.

        It is moved as a whole and at once, so no reader finds it half emptied.
        """
        if len(self._free) >= MOST:
            return False
        spare = self._root / str(next(self._numbers))
        try:
            directory.rename(spare)
            _empty(spare)
        except OSError:
            shutil.rmtree(spare, ignore_errors=True)
            return not directory.exists()
        self._free.append(spare)
        return True


def _empty(spare: Path) -> None:
    """Remove the content, except for the blank."""
    blank = spare / BLANK
    with suppress(FileNotFoundError):  # no process was spawned there
        (spare / "started").rename(blank)  # does nothing if both are names of the same file
        os.truncate(blank, 0)
    for name in os.listdir(spare):  # noqa: PTH208 - names are wanted
        if name != BLANK:
            (spare / name).unlink()

"""Directories of allocations that are forgotten, kept to be used again: nothing is made or removed per job.

A file system looks at what was deleted a moment ago whenever it makes something new (ext4 does, for five seconds): an
agent that removes two files per job slows down every file that is made, its jobs' output first.

::

    <state>/spare/<n>/blank    the inode of the next ``started``, if it had one; nothing else
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
        """What an earlier agent has left may be half emptied."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(mode=0o700, exist_ok=True)

    def make(self, directory: Path) -> None:
        """A directory that there is not yet.

        Raises:
            FileExistsError: there is.
        """
        if directory.exists():  # a rename would take the place of an empty one
            raise FileExistsError(directory)
        try:
            self._free.popleft().rename(directory)
        except (IndexError, FileNotFoundError):
            directory.mkdir(mode=0o700)

    def keep(self, directory: Path) -> bool:
        """Take a directory away, whatever is in it; False where it must be removed.

        It leaves its place at once and whole: nobody finds it half emptied there.
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
    """But for the blank."""
    blank = spare / BLANK
    with suppress(FileNotFoundError):  # nothing was spawned there
        (spare / "started").rename(blank)  # does nothing where both are names of the same
        os.truncate(blank, 0)
    for name in os.listdir(spare):  # noqa: PTH208 - names are wanted
        if name != BLANK:
            (spare / name).unlink()

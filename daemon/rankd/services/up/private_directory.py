"""The directory of ``rankd up``: only its owner can enter it, even if an older version made it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = 0o077
DIRECTORY = 0o700
PASSABLE = 0o011


def make_private(directory: Path, *, without: Path, passable: bool = False) -> None:
    """Make the directory for its owner only, or restrict an existing one and everything in it.

    The contents of ``without`` belong to jobs and keep their modes. Other users cannot reach them either way.
    ``passable``: others may pass through the directory, to what is made for them in it, and can't list it.
    """
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    if directory.stat().st_mode & OTHERS not in (0, PASSABLE):
        _narrow_all(directory, without)
    directory.chmod(DIRECTORY | PASSABLE if passable else DIRECTORY)


def _narrow_all(directory: Path, without: Path) -> None:
    directory.chmod(DIRECTORY)  # first: from here on no other user can enter
    for folder, folders, files in os.walk(directory):
        if Path(folder) == without:
            folders.clear()
            continue
        for name in (*folders, *files):
            _narrow(Path(folder, name))


def _narrow(path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISLNK(mode) and mode & OTHERS:
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)

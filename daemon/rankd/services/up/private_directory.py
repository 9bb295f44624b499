"""The directory of ``rankd up``: nobody but its owner gets into it, also where an older version made it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = 0o077
DIRECTORY = 0o700


def make_private(directory: Path, *, without: Path) -> None:
    """Make the directory for its owner only, or narrow one that is there, with all that is in it.

    What is in ``without`` belongs to jobs and keeps its modes. Other users cannot reach it either way.
    """
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    if not directory.stat().st_mode & OTHERS:
        return
    directory.chmod(DIRECTORY)  # first: from here on nobody else gets in
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

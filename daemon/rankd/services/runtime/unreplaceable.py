"""Whether another user could replace a directory that this process relies on."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rankd.core.errors import Refused

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
ROOT = 0


def check_unreplaceable(directory: Path, field: str) -> None:
    """Check that only this process's user and root can replace the directory, or one above it.

    Raises:
        Refused: ``bad_path``: another user can.
        OSError: it can't be looked at.
    """
    real = directory.resolve()
    for path in (real, *real.parents):
        found = path.stat()
        if found.st_uid not in (os.geteuid(), ROOT):
            why = f"{path} belongs to user {found.st_uid}"
        elif found.st_mode & WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX and path != real:
            why = f"others than its owner can write to {path}"
        else:
            continue
        message = f"{directory} is not safe where there are other users: {why}, who could replace it; use another one"
        raise Refused("bad_path", message, field)

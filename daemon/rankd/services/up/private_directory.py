"""The directory of ``rankd up``: only its owner can enter it, even if an older version made it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rankd.core.errors import Refused
from rankd.services.runtime.unreplaceable import ROOT, check_unreplaceable

OTHERS = 0o077
DIRECTORY = 0o700
PASSABLE = 0o011


def make_private(directory: Path, *, without: Path, passable: bool = False) -> None:
    """Make the directory for its owner only, or restrict an existing one and everything in it.

    The contents of ``without`` belong to jobs and keep their modes. Other users cannot reach them either way.
    ``passable``: others may pass through the directory, to what is made for them in it, and can't list it.

    Raises:
        Refused: ``bad_path``: this process is root's, and another user could replace the directory.
        OSError: it can't be made.
    """
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    if os.geteuid() == ROOT:
        _check_links(directory)
        check_unreplaceable(directory, "dir")
    if directory.stat().st_mode & OTHERS not in (0, PASSABLE):
        _narrow_all(directory, without)
    directory.chmod(DIRECTORY | PASSABLE if passable else DIRECTORY)


def _check_links(directory: Path) -> None:
    """Check that no other user can lead the path somewhere else: we look it up again and again."""
    path = directory.absolute()
    for link in (path, *path.parents):
        if link.is_symlink() and (owner := link.lstat().st_uid) != ROOT:
            message = f"{directory} is not safe where there are other users: the link {link} belongs to user {owner}"
            raise Refused("bad_path", f"{message}, who could replace it; use another one", "dir")


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


def check_text(directory: Path) -> None:
    """Check that the directory's name is UTF-8, as ``up.json``, the broker's configuration and the records are.

    Raises:
        Refused: ``bad_path``: the name is not UTF-8.
    """
    try:
        str(directory).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(directory)
        raise Refused(
            "bad_path", f"the name of the directory {shown!r} is not UTF-8; use another with --dir", "dir"
        ) from None

"""Directories below which an agent that is root makes something for users: nobody else may be able to replace them.

The agent follows no path that a user could change while it is looked at. It opens a directory once, without following
a link, and changes what it has opened.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rankd.core.errors import Refused
from rankd.services.keeper.proc import Identity
from rankd.services.runtime.unreplaceable import check_unreplaceable

ANYONE_MAY_PASS, OWN = 0o711, 0o700
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_top(directory: Path) -> Path:
    """Make the directory that holds those of the users: they can pass through it, and can't list or change it.

    Returns its path without links, which somebody could change later.

    Raises:
        Refused: ``bad_path``: another user could replace it.
        OSError: it can't be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    check_unreplaceable(directory, "output")
    real = directory.resolve()
    real.chmod(ANYONE_MAY_PASS)
    return real


def make_users_directory(top: Path, identity: Identity) -> Path:
    """Make the user's own directory, which nobody else can enter; returns its path.

    Raises:
        Refused: ``no_output``: there is something else of that name, or it belongs to another user.
    """
    path = top / identity.name
    try:
        _make(top, identity)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    return path


def _make(top: Path, identity: Identity) -> None:
    if identity.name in (".", "..") or "/" in identity.name:
        raise _unusable(top, f"'{identity.name}' can't be the name of a directory")
    above = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            os.mkdir(identity.name, OWN, dir_fd=above)
        own = os.open(identity.name, _OPEN, dir_fd=above)
    finally:
        os.close(above)
    try:
        _give(own, top / identity.name, identity)
    finally:
        os.close(own)


def _give(opened: int, path: Path, identity: Identity) -> None:
    """Give an open directory to the user, unless it is another user's."""
    owner = os.fstat(opened).st_uid
    if owner not in (identity.uid, os.geteuid()):
        raise _unusable(path, f"it belongs to user {owner}")
    if owner != identity.uid:
        os.fchown(opened, identity.uid, identity.gid)
    os.fchmod(opened, OWN)


def _unusable(path: Path, why: str) -> Refused:
    message = f"can't make {path} for output: {why}; name files by --output and --error"
    return Refused("no_output", message, "stdout")

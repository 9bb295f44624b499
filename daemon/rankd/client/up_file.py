"""What a directory of ``rankd up`` says of it: its ``up.json``, and its socket where that is closed to this user."""

from __future__ import annotations

import os
from pathlib import Path

from rankd.client.place_rule import Found, distrust
from rankd.core.errors import Refused, Unavailable

UP_FILE = "up.json"
LOGIN_SOCKET = "login.sock"
DATABASE_FILE = "rankd.db"
UP_FILES = ("creds", "ca", "tls_cert", "tls_key")
"""The files that ``up.json`` names for its broker."""
UP_FIELDS = ("nats", "login", "db")
MOST_BYTES = 64 * 2**10
"""At most this much of ``up.json`` and of the user's file is read. Files of rankd are smaller."""


def read_own(path: Path, within: int | None = None) -> bytes:
    """The beginning of a file. ``within``: its open directory; then only the owner may be able to write the file.

    Raises:
        Refused: ``usage``: other users can write it.
        OSError: it can't be read.
    """
    handle = os.open(path if within is None else path.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=within)
    with os.fdopen(handle, "rb") as opened:
        status = os.fstat(handle)
        why = distrust(Found(str(path), status.st_uid, status.st_mode), os.geteuid())
        if within is not None and why:
            raise Refused("usage", f"{path}: {why}; mend that, or name the directory (--dir)", "dir")
        return opened.read(MOST_BYTES)


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:  # the directory is closed to us
        return False


def _is_nodes(directory: Path) -> bool:
    """Whether a directory has the login socket of an agent: no ``rankd up`` was ever started in it."""
    if not _is_socket(directory / LOGIN_SOCKET):
        return False
    return not os.path.isfile(directory / DATABASE_FILE)  # noqa: PTH113 - Path's own raises where a directory is closed


def _logged_in(path: Path) -> dict[str, str]:
    """The broker of a ``rankd up`` that is shared with us, or of a node that vouches for its users."""
    from rankd.bus.login import name_at

    return {"nats": name_at(path).nats, "login": str(path)}


def read_up(directory: Path, *, is_named: bool) -> dict[str, str]:
    """``nats``, ``db`` and :data:`UP_FILES` of the ``rankd up`` in this directory; empty if none runs.

    A directory that was not named is checked and read through the same handle, so that it can't be replaced in
    between.

    Raises:
        Unavailable: ``no_access``: this user may not read it.
        Refused: ``bad_request``: the file is not JSON.
    """
    try:
        handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if is_named else os.O_NOFOLLOW))
    except OSError:
        return {}
    try:
        status = os.fstat(handle)
        if not is_named and distrust(Found(str(directory), status.st_uid, status.st_mode), os.geteuid()):
            return {}
        text = read_own(directory / UP_FILE, None if is_named else handle)
    except PermissionError:
        if _is_socket(directory / LOGIN_SOCKET):
            return _logged_in(directory / LOGIN_SOCKET)
        message = f"{directory} is closed to you; ask its administrator which broker to use, and give --nats URL"
        raise Unavailable("no_access", message) from None
    except OSError:
        return _logged_in(directory / LOGIN_SOCKET) if _is_nodes(directory) else {}
    finally:
        os.close(handle)
    return _fields_of(directory / UP_FILE, text)


def _fields_of(path: Path, text: bytes) -> dict[str, str]:
    """The fields of ``up.json`` that a command uses; without msgspec, whose import takes long.

    Raises:
        Refused: ``bad_request``: it is not JSON, or a field is not text.
    """
    import json

    try:
        up = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise Refused("bad_request", f"{path} is not JSON: {error}") from None
    if not isinstance(up, dict):
        raise Refused("bad_request", f"{path} is not an object of JSON")
    read = {name: up[name] for name in (*UP_FIELDS, *UP_FILES) if up.get(name) is not None}
    for name, value in read.items():
        if not isinstance(value, str):
            raise Refused("bad_request", f"{path}: '{name}' is not text")
    return read

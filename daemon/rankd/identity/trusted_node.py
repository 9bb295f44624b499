"""Which nodes may vouch for the users of their machines: an administrator's list in the site's directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rankd.core.errors import Refused
from rankd.identity.credentials import write_private

TRUSTED_FILE = "trusted.json"


def read_trusted(directory: Path) -> Mapping[str, bool]:
    """The nodes that are trusted, and those that were and are not any more.

    Raises:
        Refused: ``bad_secret``: the file holds something else.
    """
    try:
        return msgspec.json.decode((directory / TRUSTED_FILE).read_bytes(), type=dict[str, bool])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise Refused("bad_secret", f"{directory / TRUSTED_FILE} can't be read: {error}; restore it") from None


def set_trusted(directory: Path, node: str, *, is_trusted: bool) -> None:
    """Add a node to the list, or take it off.

    Raises:
        OSError: the directory can't be written.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # of two changes at the same time, the second one adds to the first
        listed = {**read_trusted(directory), node: is_trusted}
        write_private(directory / TRUSTED_FILE, msgspec.json.format(msgspec.json.encode(listed)).decode() + "\n")
    finally:
        os.close(handle)

"""The register in the site's directory: a file that only its owner can read, replaced as a whole under a lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from rankd.core.errors import Refused
from rankd.identity.credentials import write_private
from rankd.identity.one_writer import one_writer
from rankd.identity.register import Register

REGISTER_FILE = "register.json"


def read_register(directory: Path) -> Register:
    """The register in this directory; an empty one if there is none.

    Raises:
        Refused: ``bad_register``: the file holds something else.
        OSError: it can't be read.
    """
    path = directory / REGISTER_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Register)
    except FileNotFoundError:
        return Register()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        message = f"{path} can't be read: {error}; restore it, or remove it: then open invitations and roles are lost"
        raise Refused("bad_register", message) from None


def change_register(directory: Path, change: Callable[[Register], Register]) -> Register:
    """Change the register; durable when this returns. ``change`` must not change it itself.

    Raises:
        Refused: as :func:`read_register`, or what ``change`` raises; then nothing changes.
        OSError: the directory can't be written.
    """
    with one_writer(directory):
        before = read_register(directory)
        after = change(before)
        if after != before:
            text = msgspec.json.format(msgspec.json.encode(after)).decode()
            write_private(directory / REGISTER_FILE, text + "\n")
        return after

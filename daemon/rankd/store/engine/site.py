"""The identity of a database file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.wire.site import Site

if TYPE_CHECKING:
    from pathlib import Path

_BOOT = "/proc/sys/kernel/random/boot_id"


def site_of(database: Path) -> Site:
    """The identity of the file. Two results are equal exactly if the file is the same.

    Raises:
        Refused: ``usage``: the file does not exist, or this user may not read it.
    """
    try:
        status = os.stat(database)  # noqa: PTH116 - one import less
        with open(_BOOT) as boot:  # noqa: PTH123
            machine = boot.read().strip()
    except OSError as error:
        raise Refused("usage", f"the database {database} can't be accessed: {error.strerror}", "db") from None
    return Site(machine=machine, device=status.st_dev, inode=status.st_ino)

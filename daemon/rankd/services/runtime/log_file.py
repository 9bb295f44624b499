"""Keeps the log files of other processes small: those of the children of ``rankd up``, and the keeper's.

A process writes to its log through an inherited descriptor, so the log also has what the process prints when it
crashes. Therefore the file cannot be renamed under it. It is copied, then emptied in place; all writers append. A line
that is written in the microseconds between the copy and the truncation is lost. A pipe would lose none, but then a
stopped ``rankd up`` (Ctrl-Z) would block every service.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger("rankd.log")

LARGEST_BYTES = 4 * 2**20
KEPT = 3
"""The number of older parts that are kept: ``intake.log.1`` is the newest of them."""

LOOK_EVERY_S = 1.0

TAIL_BYTES = 16 * 2**10
LONGEST_LINE = 500
"""Characters of a line that a message quotes."""


def open_log(path: Path) -> BinaryIO:
    """The log for a child to append to; readable by its owner only."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def last_line(path: Path) -> str:
    """The last line that is not blank, cut to a readable length; empty if there is no such line, or no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:LONGEST_LINE] for line in reversed(lines) if line.strip()), "")


async def keep_small(paths: Sequence[Path]) -> None:
    """Check the logs until cancelled; one that is too large becomes an older part."""
    while True:
        for path in paths:
            await asyncio.to_thread(rotate_if_large, path)
        await asyncio.sleep(LOOK_EVERY_S)


def rotate_if_large(path: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Move the content to ``<name>.1``, that of ``.1`` to ``.2``, and so on; the oldest part is deleted.

    If there is no room for a copy, everything stays as it is.
    """
    copy = path.with_name(f"{path.name}.new")
    try:
        if path.stat().st_size > largest_bytes:
            copy.unlink(missing_ok=True)
            _move_content(path, copy)
    except FileNotFoundError:
        return
    except OSError as error:
        log.debug("%s is not rotated: %s", path, error)
        copy.unlink(missing_ok=True)


def _move_content(path: Path, copy: Path) -> None:
    with path.open("rb+") as source, open_log(copy) as part:
        shutil.copyfileobj(source, part)
        part.flush()
        for number in range(KEPT, 1, -1):
            with suppress(FileNotFoundError):
                _part(path, number - 1).replace(_part(path, number))
        copy.rename(_part(path, 1))
        shutil.copyfileobj(source, part)  # what was written meanwhile
        source.truncate(0)


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")

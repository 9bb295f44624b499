"""The files and directories of control groups: read, write, list processes, kill, remove.

A keeper does this several times for each job, so it uses descriptors and plain strings: pathlib and text files cost
three times as much.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress

LONGEST_READ = 65_536
OWN_LINKS = 2
"""The link count of a directory without subdirectories: its name and its ``.``"""


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write the value of a control file. The kernel accepts a value only as a single write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def read(path: str) -> bytes:
    """The content of a control file.

    Raises:
        OSError: there is no such file, or it can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, LONGEST_READ):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def number_in(path: str) -> int | None:
    """The number in a file; None if there is no such file, or if it does not contain a number."""
    with suppress(OSError, ValueError):
        return int(read(path))
    return None


def field_in(path: str, name: str) -> int | None:
    """A value from a file with lines like ``name 17``; None if it has no such line."""
    with suppress(OSError, ValueError):
        for line in read(path).decode().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return None


def members(directory: str | os.PathLike[str]) -> Iterator[int]:
    """The processes of a group and of its subgroups."""
    for path in _tree(os.fspath(directory)):
        with suppress(OSError):
            yield from map(int, read(f"{path}/cgroup.procs").split())


def kill_all(directory: str | os.PathLike[str]) -> None:
    """KILL every process of a group and of its subgroups."""
    with suppress(OSError):  # version 2, Linux 5.14 or newer: also ends processes that are forked meanwhile
        write(f"{os.fspath(directory)}/cgroup.kill", "1")
        return
    for pid in members(directory):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def removed(directories: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Remove these groups. Returns those that can't be removed yet because they still have a process."""
    return [path for path in (os.fspath(directory) for directory in directories) if not _is_removed(path)]


def _is_removed(directory: str) -> bool:
    try:
        os.rmdir(directory)  # noqa: PTH106 - see above
    except FileNotFoundError:
        return True
    except OSError:
        below = [path for path in _tree(directory) if path != directory]
        return bool(below) and not removed(reversed(below)) and _is_removed(directory)
    return True


def _tree(directory: str) -> Iterator[str]:
    """A group and its subgroups; each group comes before its subgroups.

    Nearly every job has a single group. The kernel counts subgroups as links, so its directory need not be listed.
    """
    with suppress(OSError):
        if os.stat(directory).st_nlink == OWN_LINKS:  # noqa: PTH116 - see above
            yield directory
            return
    for path, _, _ in os.walk(directory):
        yield path

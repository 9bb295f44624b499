"""Which job a process on a device belongs to, or else which user."""

from __future__ import annotations

import pwd
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rankd.services.agent.leftover import mark_of
from rankd.services.keeper.cgroup_layout import PROC, tag_of

FIRST_NAMESPACE = 4026531836
"""The number that Linux gives to the namespace of process ids in which the machine was started."""


class Owner(NamedTuple):
    """The allocation of a process, if it belongs to one of this agent's; and its user."""

    pid: int
    allocation: int | None
    user: str


class Owners:
    """Finds the owners of processes. ``state``: the agent's state directory, after which its jobs' groups are named."""

    def __init__(self, state: Path, proc: Path = PROC.parent) -> None:
        self._state = str(state)
        self._group = re.compile(rf"/rankd-{tag_of(state)}-(\d+)(?:/|$)", re.MULTILINE)
        self._proc = proc

    def of(self, pid: int) -> Owner | None:
        """The owner of a process; None if it has ended.

        A process that left its control group, or has none on this host, is known by its environment.
        """
        directory = self._proc / str(pid)
        try:
            user = directory.stat().st_uid
            found = self._group.search((directory / "cgroup").read_text())
        except OSError:
            return None
        return Owner(pid, int(found[1]) if found else mark_of(pid, self._state, self._proc), _name_of(user))


def sees_all_processes(proc: Path = PROC) -> bool:
    """Whether the ids that drivers report are those that this process sees. In a container they are usually not."""
    with suppress(OSError):
        return (proc / "ns/pid").stat().st_ino == FIRST_NAMESPACE
    return False


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

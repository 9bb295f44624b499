"""The records that start a job's process, and what /proc contains about processes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from rankd.services.keeper.cgroup_layout import Limits
from rankd.services.keeper.device_rule import DeviceNumber

_START_TIME_FIELD = 19  # field 22 of proc(5)'s stat, counted after the name, which may contain anything
_GROUP_FIELD = 2


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A user to run as, with all of his groups."""

    name: str
    uid: int
    gid: int
    groups: list[int]


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """An interactive process: its streams go through a relay, which serves the agent on the socket ``name``.

    ``pty``: it gets a terminal of this size. ``input``: it has input; without, it reads nothing.
    """

    name: str
    pty: bool = False
    input: bool = True
    rows: int = 24
    columns: int = 80


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is needed to start a command. Paths are absolute; ``stdin`` None means /dev/null.

    ``identity`` None means the agent's own user. ``may_lack_cwd``: if the working directory does not exist, the command
    runs in ``/``, as at a login without a home. ``denied``: devices of this node that the command can't open.
    ``session``: of an interactive command; then its relay writes the files. ``holds``: the process only holds a node of
    the job, and gets no signals of users.
    """

    command: list[str]
    environment: dict[str, str]
    cwd: str
    stdin: str | None
    stdout: str
    stderr: str
    append: bool
    identity: Identity | None = None
    limits: Limits | None = None
    may_lack_cwd: bool = False
    denied: list[DeviceNumber] = []
    session: Session | None = None
    holds: bool = False


def all_pids() -> list[int]:
    """Every process that this one can see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names are wanted


def start_time_of(pid: int) -> int | None:
    """The start time of a process, in clock ticks since boot; None if it is not alive (a zombie is not)."""
    fields = _stat(pid)
    return int(fields[_START_TIME_FIELD]) if fields and fields[0] not in "ZX" else None


def is_of_group(pid: int, group: int) -> bool:
    """Whether a process is alive and belongs to this process group."""
    fields = _stat(pid)
    return bool(fields) and int(fields[_GROUP_FIELD]) == group and fields[0] not in "ZX"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()

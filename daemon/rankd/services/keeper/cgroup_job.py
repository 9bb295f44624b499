"""One job's control group: limits, members, what it has used, and its end.

Every process of a job is in its group from before its command runs until it has ended: the child steps in itself,
before it drops its rights, by writing 0. With version 1 that takes 20 to 120 us; moving another process, or any
process with version 2, locks out all forks of the machine, which takes 2.5 to 15 ms, but not in the keeper.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from rankd.services.keeper.cgroup_layout import CPU, CPUACCT, MEMORY, PIDS, Limits, Place, cpu_allowance, limit_files

EINVAL_HINT = "a group can't have more than the group above it"


class GroupError(Exception):
    """A job's group can't be made or given its limits: says which file refused which value."""


class Used(NamedTuple):
    """What a job has used, by its group; None where there is nothing that counts it."""

    cpu_s: float | None
    peak_bytes: int | None


class JobGroup:
    """One job's group, in one directory per hierarchy; with no places it is no group, and nothing is limited."""

    def __init__(self, name: str, limits: Limits, places: Mapping[str, Place]) -> None:
        self._name = name
        self._limits = limits
        self._places = places
        self._directories = tuple(dict.fromkeys(place.base / name for place in places.values()))

    @property
    def directories(self) -> tuple[Path, ...]:
        """Each once: with version 2 controllers share one. The same processes are in all of them."""
        return self._directories

    def joins(self) -> list[Path]:
        """The files by which a process steps in, by writing 0."""
        files = {
            place.base / self._name: "tasks" if place.version == 1 else "cgroup.procs"
            for place in self._places.values()
        }
        return [directory / file for directory, file in files.items()]

    def make(self) -> None:
        """Make it, with its limits.

        Raises:
            GroupError: it can't be made, or a limit not be set.
        """
        for directory in self._directories:
            try:
                directory.mkdir(exist_ok=True)
            except OSError as error:
                raise GroupError(f"can't make the control group {directory}: {error.strerror}") from error
        for controller, place in self._places.items():
            for number, (name, text) in enumerate(limit_files(place.version, self._limits).get(controller, ())):
                self._set(place, name, text, needed=number == 0)

    def _set(self, place: Place, name: str, text: str, *, needed: bool) -> None:
        path = place.base / self._name / name
        try:
            write(path, text)
        except OSError as error:
            if needed and not self._is_lowered(place, name):
                raise GroupError(f"can't write '{text}' to {path}: {error.strerror}") from error

    def _is_lowered(self, place: Place, name: str) -> bool:
        """A quota above that of the group that we are in is refused by version 1: then that one is all there is."""
        allowance = cpu_allowance(place) if name == "cpu.cfs_quota_us" else None
        if allowance is None or allowance >= (self._limits.vcore or 0):
            return False
        [(_, text)] = limit_files(place.version, msgspec.structs.replace(self._limits, vcore=allowance))[CPU]
        with suppress(OSError):
            write(place.base / self._name / name, text)
            return True
        return False

    def members(self) -> list[int]:
        """Its processes that live, those of groups below it as well."""
        return [pid for directory in self._directories[:1] for pid in members(directory)]

    def signal_others(self, number: int, session: int) -> None:
        """Send a signal to those of its processes that have left the job's process group."""
        listed = self.members()
        with_descriptors = {}
        try:
            for pid in listed:
                with suppress(OSError):
                    with_descriptors[pid] = os.pidfd_open(pid)
            still = set(self.members())  # one that is a member now has not taken over the pid of one that was
            for pid, descriptor in with_descriptors.items():
                with suppress(OSError):
                    if pid in still and os.getpgid(pid) != session:
                        signal.pidfd_send_signal(descriptor, number)
        finally:
            for descriptor in with_descriptors.values():
                os.close(descriptor)

    def kill(self) -> None:
        """KILL all of its processes; new ones can't be made meanwhile, where that can be limited."""
        if PIDS in self._places:
            with suppress(OSError):
                write(self._places[PIDS].base / self._name / "pids.max", "0")
        for directory in self._directories:
            kill_all(directory)

    def used(self) -> Used:
        """What its processes have used, of those that have ended as well."""
        return Used(self._cpu_s(), self._peak_bytes())

    def _cpu_s(self) -> float | None:
        place = self._places.get(CPUACCT)
        if place is None:
            return None
        directory = place.base / self._name
        if place.version == 1:
            nanoseconds = _number(directory / "cpuacct.usage")
            return None if nanoseconds is None else nanoseconds / 1e9
        microseconds = _field(directory / "cpu.stat", "usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def _peak_bytes(self) -> int | None:
        place = self._places.get(MEMORY)
        if place is None:
            return None
        return _number(place.base / self._name / ("memory.max_usage_in_bytes" if place.version == 1 else "memory.peak"))

    def oom_kills(self) -> int:
        """How often the kernel has killed a process of the group for want of memory."""
        place = self._places.get(MEMORY)
        if place is None:
            return 0
        file = place.base / self._name / ("memory.oom_control" if place.version == 1 else "memory.events")
        return _field(file, "oom_kill") or 0


Measured = Literal["cgroup", "cgroup_cpu", "cgroup_memory", "wait"]


def measured(used: Used) -> Measured:
    """Which of both the group counted; what it did not is by what was waited for.

    >>> measured(Used(0.5, None))
    'cgroup_cpu'
    """
    if used.cpu_s is not None:
        return "cgroup" if used.peak_bytes is not None else "cgroup_cpu"
    return "wait" if used.peak_bytes is None else "cgroup_memory"


def members(directory: Path) -> Iterator[int]:
    """Processes of a group and of those below it."""
    for path in _tree(directory):
        with suppress(OSError):
            yield from (int(line) for line in (path / "cgroup.procs").read_text().split())


def kill_all(directory: Path) -> None:
    """KILL every process of a group and of those below it."""
    with suppress(OSError):  # version 2, from Linux 5.14 on: nobody can fork away from it
        write(directory / "cgroup.kill", "1")
        return
    for pid in members(directory):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def removed(directories: Iterable[Path]) -> list[Path]:
    """Remove these groups; returns those that could not be, since a process is left."""
    return [directory for directory in directories if not _is_removed(directory)]


def _is_removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        below = [path for path in _tree(directory) if path != directory]
        return bool(below) and not removed(reversed(below)) and _is_removed(directory)
    return True


def _tree(directory: Path) -> Iterator[Path]:
    """A group and those below it; a group comes before those below it."""
    for path, _, _ in os.walk(directory):
        yield Path(path)


def write(path: Path, text: str) -> None:
    """At once: a control file takes a value by one write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _field(path: Path, name: str) -> int | None:
    """A value of a file of lines like ``name 17``."""
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return None

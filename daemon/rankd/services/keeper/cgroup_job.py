"""One job's control group: its limits, its members, the resources it has used, and its end.

Every process of a job is in its group from before its command runs until it has ended. The child enters the group
itself, before it drops its rights, by writing 0. With version 1 that takes 20 to 120 us. To move another process, or
any process with version 2, the kernel blocks all forks of the machine. That takes 2.5 to 15 ms, but does not block
the keeper.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

import msgspec

from rankd.services.keeper.cgroup_device import deny
from rankd.services.keeper.cgroup_file import field_in, kill_all, members, number_in, removed, write
from rankd.services.keeper.cgroup_layout import (
    CPU,
    CPUACCT,
    DEVICES,
    MEMORY,
    PIDS,
    Limits,
    Place,
    cpu_allowance,
    limit_files,
)
from rankd.services.keeper.device_rule import DeviceNumber


class GroupError(Exception):
    """A job's group can't be made, or its limits can't be set. The message names the file and the value."""


class Used(NamedTuple):
    """What a job has used, as its group counted it; None if nothing counts it."""

    cpu_s: float | None
    peak_bytes: int | None


class JobGroup:
    """One job's group, with one directory per hierarchy. Without places there is no group, and nothing is limited.

    ``denied``: devices that its processes can't open, if ``places`` has a place for this.
    """

    def __init__(
        self, name: str, limits: Limits, places: Mapping[str, Place], denied: Sequence[DeviceNumber] = ()
    ) -> None:
        self._limits = limits
        self._denied = denied
        self._places = places
        self._by_controller = {controller: f"{place.base}/{name}" for controller, place in places.items()}
        self._versions = {self._by_controller[controller]: place.version for controller, place in places.items()}

    @property
    def directories(self) -> tuple[str, ...]:
        """Each directory once: with version 2, controllers share one. All of them hold the same processes."""
        return tuple(self._versions)

    def joins(self) -> list[str]:
        """The files to which a process writes 0 to enter the group."""
        files = {1: "tasks", 2: "cgroup.procs"}
        return [f"{directory}/{files[version]}" for directory, version in self._versions.items()]

    def make(self) -> None:
        """Make the group, set its limits, and deny it devices.

        Raises:
            GroupError: the group can't be made, a limit can't be set, or a device can't be denied.
        """
        for directory in self._versions:
            try:
                os.mkdir(directory)  # noqa: PTH102 - as in cgroup_file
            except FileExistsError:
                continue
            except OSError as error:
                raise GroupError(f"can't make the control group {directory}: {error.strerror}") from error
        for version in set(self._versions.values()):
            for controller, files in limit_files(version, self._limits).items():
                if controller in self._places and self._places[controller].version == version:
                    self._limit(controller, files)
        if self._denied and DEVICES in self._places:
            self._confine(self._by_controller[DEVICES])

    def _confine(self, directory: str) -> None:
        try:
            deny(directory, self._versions[directory], self._denied)
        except OSError as error:
            message = f"can't keep the job from devices of other jobs: {directory}: {error.strerror}"
            raise GroupError(message) from error

    def _limit(self, controller: str, files: Sequence[tuple[str, str]]) -> None:
        for number, (name, text) in enumerate(files):
            path = f"{self._by_controller[controller]}/{name}"
            try:
                write(path, text)
            except OSError as error:
                if number == 0 and not self._is_lowered(controller, name):  # only the first file is required
                    raise GroupError(f"can't write '{text}' to {path}: {error.strerror}") from error

    def _is_lowered(self, controller: str, name: str) -> bool:
        """Whether a lower quota was set: version 1 refuses one above the parent group's, which then limits the job."""
        place = self._places[controller]
        allowance = cpu_allowance(place) if name == "cpu.cfs_quota_us" else None
        if allowance is None or allowance >= (self._limits.vcore or 0):
            return False
        [(_, text)] = limit_files(place.version, msgspec.structs.replace(self._limits, vcore=allowance))[CPU]
        with suppress(OSError):
            write(f"{self._by_controller[controller]}/{name}", text)
            return True
        return False

    def members(self) -> list[int]:
        """Its living processes, with those of its subgroups."""
        return [pid for directory in self.directories[:1] for pid in members(directory)]

    def signal_others(self, number: int, session: int) -> None:
        """Send a signal to those of its processes that have left the job's process group."""
        with self.others(session) as others:
            send(number, others)

    @contextmanager
    def others(self, session: int) -> Iterator[list[int]]:
        """Descriptors of those of its processes that have left the job's process group by now."""
        with_descriptors: dict[int, int] = {}
        try:
            for pid in self.members():
                with suppress(OSError):
                    with_descriptors[pid] = os.pidfd_open(pid)
            still = set(self.members())  # a process that is still a member did not take over the pid of a former one
            yield [fd for pid, fd in with_descriptors.items() if pid in still and _has_left(pid, session)]
        finally:
            for descriptor in with_descriptors.values():
                os.close(descriptor)

    def kill(self) -> None:
        """KILL all of its processes. Where the number of processes can be limited, no new one can be made meanwhile."""
        if PIDS in self._by_controller:
            with suppress(OSError):
                write(f"{self._by_controller[PIDS]}/pids.max", "0")
        for directory in self._versions:
            kill_all(directory)

    def remove(self) -> list[str]:
        """Remove its directories. Returns those that can't be removed yet because they still have a process."""
        return removed(self._versions)

    def used(self) -> Used:
        """What its processes have used, including those that have ended."""
        return Used(self._cpu_s(), self._peak_bytes())

    def _cpu_s(self) -> float | None:
        directory = self._by_controller.get(CPUACCT)
        if directory is None:
            return None
        if self._versions[directory] == 1:
            nanoseconds = number_in(f"{directory}/cpuacct.usage")
            return None if nanoseconds is None else nanoseconds / 1e9
        microseconds = field_in(f"{directory}/cpu.stat", "usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def _peak_bytes(self) -> int | None:
        directory = self._by_controller.get(MEMORY)
        if directory is None:
            return None
        name = "memory.max_usage_in_bytes" if self._versions[directory] == 1 else "memory.peak"
        return number_in(f"{directory}/{name}")

    def oom_kills(self) -> int:
        """How often the kernel has killed a process of the group because of its memory limit."""
        directory = self._by_controller.get(MEMORY)
        if directory is None:
            return 0
        name = "memory.oom_control" if self._versions[directory] == 1 else "memory.events"
        return field_in(f"{directory}/{name}", "oom_kill") or 0


def send(number: int, descriptors: Iterable[int]) -> None:
    """Send a signal to these processes. Those that have ended, or may not be signalled, are left out."""
    for descriptor in descriptors:
        with suppress(OSError):
            signal.pidfd_send_signal(descriptor, number)


def _has_left(pid: int, session: int) -> bool:
    with suppress(OSError):
        return os.getpgid(pid) != session
    return False


Measured = Literal["cgroup", "cgroup_cpu", "cgroup_memory", "wait"]


def measured(used: Used) -> Measured:
    """Which of the two values the group counted. The other one comes from waiting for the process.

    >>> measured(Used(0.5, None))
    'cgroup_cpu'
    """
    if used.cpu_s is not None:
        return "cgroup" if used.peak_bytes is not None else "cgroup_cpu"
    return "wait" if used.peak_bytes is None else "cgroup_memory"

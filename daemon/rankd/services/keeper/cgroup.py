"""Control groups for jobs, of version 1 or 2, as far as the host permits.

Every job has one. It limits memory, cores and processes, counts their use, and also holds processes that left the job's
session. With version 2, groups are siblings of the keeper's own group, so a delegated unit needs a subgroup for the
agent (systemd: ``Delegate=yes`` and ``DelegateSubgroup=agent``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rankd.services.keeper.cgroup_device import check_denies
from rankd.services.keeper.cgroup_file import kill_all, members, removed, write
from rankd.services.keeper.cgroup_job import JobGroup
from rankd.services.keeper.cgroup_layout import (
    CPU,
    CPUACCT,
    DEVICES,
    IN_EVERY_GROUP,
    MEMORY,
    PIDS,
    PROC,
    Limits,
    Place,
    own_places,
)
from rankd.services.keeper.device_rule import DeviceNumber

LIMITED = (MEMORY, CPU, PIDS)


class ControlGroups:
    """The host's usable groups.

    :attr:`statement` tells in words what is limited, or why something is not. :attr:`confinement` tells whether devices
    can be denied.
    """

    def __init__(self, tag: str, proc: Path = PROC) -> None:
        self._prefix = f"rankd-{tag}-"
        self._places: dict[str, Place] = {}
        self._problems: list[tuple[str, str]] = []
        self._left: list[str] = []
        with suppress(OSError):
            for controller in (*LIMITED, CPUACCT, DEVICES):
                self._find(controller, proc)
        self._remove_stale()

    def _find(self, controller: str, proc: Path) -> None:
        """Use the first place where a group with this controller can be made; version 1 comes before version 2."""
        for place in sorted(own_places(controller, proc), key=lambda place: place.version):
            if controller not in self._places and (wanted := _with_controller(controller, place)):
                self._try(controller, wanted)

    def _try(self, controller: str, place: Place) -> None:
        """Use a place if a group can be made in it."""
        probe = place.base / f"{self._prefix}probe-{os.getpid()}"
        try:
            if place.version != 1 and controller not in IN_EVERY_GROUP:
                write(place.base / "cgroup.subtree_control", f"+{controller}")
            probe.mkdir()
            try:
                if controller == DEVICES:
                    check_denies(str(probe), place.version)
            finally:
                probe.rmdir()
        except OSError as error:
            self._problems.append((controller, f"{controller}: {place.base}: {error.strerror}"))
        else:
            self._places[controller] = place

    @property
    def limited(self) -> frozenset[str]:
        """The controllers by which jobs can be limited here."""
        return frozenset(self._places) & frozenset(LIMITED)

    @property
    def statement(self) -> str:
        """What is limited, and why the rest is not, for the log."""
        limited = [f"{name} (cgroup v{self._places[name].version})" for name in LIMITED if name in self._places]
        missing = [name for name in LIMITED if name not in self._places]
        why = f" ({self._why(*LIMITED, CPUACCT)})" if missing else ""
        said = [f"{_and(limited)} of jobs limited"] if limited else []
        said += [f"{_and(missing)} of jobs NOT limited{why}"] if missing else []
        return "; ".join(said)

    def _why(self, *controllers: str) -> str:
        problems = [text for controller, text in self._problems if controller in controllers]
        return "; ".join(problems) or "no such control group is mounted here"

    @property
    def confines(self) -> bool:
        """Whether jobs can be kept from devices that are not theirs."""
        return DEVICES in self._places

    @property
    def confinement(self) -> str:
        """Whether jobs can be kept from devices that are not theirs, or why not, in words."""
        if self.confines:
            return f"jobs can open no device of another job (cgroup v{self._places[DEVICES].version})"
        return f"jobs are NOT kept from devices of other jobs ({self._why(DEVICES)})"

    def group(self, name: str, limits: Limits | None, denied: Sequence[DeviceNumber] = ()) -> JobGroup:
        """A job's group. It has no directories if this host lets us make no group."""
        places = {name: place for name, place in self._places.items() if denied or name != DEVICES}
        return JobGroup(f"{self._prefix}{name}", limits or Limits(), places, denied)

    def remove_later(self, directories: Iterable[str]) -> None:
        """Keep directories of groups that could not be removed. Each later call and :meth:`is_clean` try again."""
        self._left += directories
        self.is_clean()

    def is_clean(self) -> bool:
        """Try again to remove the remaining directories; returns whether all of them are removed."""
        if self._left:
            self._left = removed(self._left)
        return not self._left

    def _remove_stale(self) -> None:
        """End the processes that a killed keeper left in its groups."""
        for base in {place.base for place in self._places.values()}:
            for path in base.glob(f"{self._prefix}*"):
                if any(members(path)):
                    kill_all(path)
                self._left += removed([path])


def _with_controller(controller: str, place: Place) -> Place | None:
    """The place where a sibling of our own group, or a child of the root group, has this controller; None without one.

    Version 2 counts processor time and decides on devices in every group, whatever controllers it has.
    """
    if place.version == 1:
        return place
    base = place.base if place.base == place.top else place.base.parent
    with suppress(OSError):
        if controller in IN_EVERY_GROUP or controller in (base / "cgroup.controllers").read_text().split():
            return place._replace(base=base)
    return None


def _and(names: list[str]) -> str:
    """Join names as in a sentence.

    >>> _and(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

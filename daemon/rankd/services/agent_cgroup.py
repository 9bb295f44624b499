"""Limits of memory and cores for jobs, by control groups of version 1 or 2, where the host lets us.

A job's group has its limits before the job is spawned. With version 1 the thread that spawns steps in first, so that
the job is born there. A thread that moves itself, by writing 0, takes 20 to 120 us; moving a process, or a thread by
its id, locks out all forks of the machine, which takes 2.5 to 15 ms. Version 2 moves whole processes only: the job is
put in right after its spawn, with what it may have forked by then. There, groups are siblings of the keeper's own: a
delegated unit needs a subgroup for the agent (systemd: ``Delegate=yes`` and ``DelegateSubgroup=agent``).

Sources: the kernel's cgroup-v1/memory.rst, sched-bwc.rst and cgroup-v2.rst. Not here: which limits a job has.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

PERIOD_US = 100_000
LEAST_QUOTA_US = 1_000
MEMORY, CPU = "memory", "cpu"
WANTED = (MEMORY, CPU)
MYSELF = "0"
"""The thread that writes it. The kernel takes no lock for it, since nobody exits or forks while he writes."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a job may use on this node; None is without limit. ``vcore`` in thousandths of a core."""

    memory_bytes: int | None = None
    vcore: int | None = None

    def controllers(self) -> list[str]:
        """Those that are needed for it."""
        return [name for name, limit in ((MEMORY, self.memory_bytes), (CPU, self.vcore)) if limit]


class Mount(NamedTuple):
    """A hierarchy that is mounted: where, from which group on, of which version, with which controllers."""

    point: str
    root: str
    version: int
    controllers: frozenset[str]


class Place(NamedTuple):
    """Where groups with a controller are made."""

    base: Path
    version: int


def parse_mounts(text: str) -> list[Mount]:
    """The hierarchies in a ``/proc/self/mountinfo``; version 2 names no controllers there."""
    mounts = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            version = 2 if kind == "cgroup2" else 1
            named = frozenset() if version == 2 else frozenset(options.split(","))
            mounts.append(Mount(fields[4], fields[3], version, named))
    return mounts


def parse_own(text: str) -> dict[str, str]:
    """A process's groups by controller, from a ``/proc/self/cgroup``; version 2 is the empty controller."""
    own = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    return own


def own_directory(mount: Mount, path: str) -> Path:
    """Where a group is seen; a container sees its hierarchy from its own root on."""
    inside = path.removeprefix(mount.root) if mount.root != "/" else path
    return Path(mount.point + "/" + inside.strip("/")) if inside.strip("/") else Path(mount.point)


def limit_files(version: int, limits: Limits) -> dict[str, list[tuple[str, str]]]:
    """What is written for limits: by controller, (file, text). Optional files come last."""
    files: dict[str, list[tuple[str, str]]] = {}
    if limits.memory_bytes:
        amount = str(limits.memory_bytes)
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if version == 1 else ("memory.max",)
        files[MEMORY] = [(name, amount) for name in names]
        files[MEMORY] += [("memory.swap.max", "0")] if version == 2 else []
    if limits.vcore:
        quota = max(LEAST_QUOTA_US, limits.vcore * PERIOD_US // 1000)
        files[CPU] = [("cpu.cfs_quota_us", str(quota))] if version == 1 else [("cpu.max", f"{quota} {PERIOD_US}")]
    return files


class ControlGroups:
    """The host's groups, as far as we may use them; :attr:`statement` says in words what is limited, or why not."""

    def __init__(self, tag: str, proc: Path = Path("/proc/self")) -> None:
        self._prefix = f"rankd-{tag}-"
        self._places: dict[str, Place] = {}
        self._problems: list[str] = []
        self._left: list[Path] = []
        with suppress(OSError):
            self._find(proc)
        self._remove_stale()

    def _find(self, proc: Path) -> None:
        own = parse_own((proc / "cgroup").read_text())
        for mount in parse_mounts((proc / "mountinfo").read_text()):
            for controller in WANTED:
                if place := self._place_of(mount, controller, own):
                    self._try(controller, place)

    @staticmethod
    def _place_of(mount: Mount, controller: str, own: dict[str, str]) -> Place | None:
        if mount.version == 1:
            home = own_directory(mount, own.get(controller, "/"))
            return Place(home, 1) if controller in mount.controllers else None
        home = own_directory(mount, own.get("", "/"))
        base = home if home == Path(mount.point) else home.parent
        with suppress(OSError):
            if controller in (base / "cgroup.controllers").read_text().split():
                return Place(base, 2)
        return None

    def _try(self, controller: str, place: Place) -> None:
        """Take a place if a group can be made in it."""
        probe = place.base / f"{self._prefix}probe"
        try:
            if place.version == 2:
                (place.base / "cgroup.subtree_control").write_text(f"+{controller}")
            with suppress(FileExistsError):
                probe.mkdir()
            probe.rmdir()
        except OSError as error:
            self._problems.append(f"{controller}: {place.base}: {error.strerror}")
        else:
            self._places.setdefault(controller, place)

    @property
    def statement(self) -> str:
        """What is limited."""
        limited = [f"{name} (cgroup v{place.version})" for name, place in self._places.items()]
        missing = [name for name in WANTED if name not in self._places]
        why = f" ({'; '.join(self._problems) or 'no such control group is mounted here'})" if missing else ""
        said = [f"{' and '.join(limited)} of jobs limited"] if limited else []
        said += [f"{' and '.join(missing)} of jobs NOT limited{why}"] if missing else []
        return "; ".join(said)

    def group(self, name: str, limits: Limits | None) -> JobGroup:
        """A job's group. It has no directory where nothing is to be limited, or nothing can be."""
        wanted = limits.controllers() if limits else []
        places = {controller: self._places[controller] for controller in wanted if controller in self._places}
        return JobGroup(f"{self._prefix}{name}", limits or Limits(), places)

    def remove(self, group: JobGroup) -> None:
        """Remove a group's directories, and those that could not be removed before: they go with their last process.

        Whatever is left in it is killed, also what has left the job's session.
        """
        for path in group.directories():
            if not _removed(path):
                kill_all(path)
                self._left.append(path)
        self.is_clean()

    def is_clean(self) -> bool:
        """Try once more to remove what is left; whether nothing is."""
        self._left = [path for path in self._left if not _removed(path)]
        return not self._left

    def _remove_stale(self) -> None:
        """End what a keeper that was killed has left in its groups."""
        for base in {place.base for place in self._places.values()}:
            for path in base.glob(f"{self._prefix}*"):
                kill_all(path)
                self._left += [] if _removed(path) else [path]


class JobGroup:
    """One job's group, in one directory per hierarchy."""

    def __init__(self, name: str, limits: Limits, places: dict[str, Place]) -> None:
        self._name = name
        self._limits = limits
        self._places = places
        self._is_born_inside = False
        self._directories = tuple(dict.fromkeys(place.base / name for place in places.values()))

    def directories(self) -> tuple[Path, ...]:
        """Each once: with version 2 controllers share one."""
        return self._directories

    def make(self) -> None:
        """Make it, with its limits.

        Raises:
            OSError: the group can't be made.
        """
        for directory in self.directories():
            directory.mkdir(exist_ok=True)
        for controller, place in self._places.items():
            for number, (name, text) in enumerate(limit_files(place.version, self._limits)[controller]):
                with suppress(OSError) if number else nullcontext():  # the first is needed, others are extras
                    _write(f"{place.base}/{self._name}/{name}", text)

    @contextmanager
    def spawning(self) -> Iterator[None]:
        """With this thread in the group: what it spawns is born there. Version 2 moves whole processes only."""
        places = [place for place in self._places.values() if place.version == 1]
        try:
            for place in places:
                _write(f"{place.base}/{self._name}/tasks", MYSELF)
            self._is_born_inside = len(places) == len(self._places)
            yield
        finally:
            for place in places:
                _write(f"{place.base}/tasks", MYSELF)

    def take(self, pid: int) -> None:
        """Put a process in, and all that descend from it, if it was not born there."""
        if self._is_born_inside:
            return
        taken: set[int] = set()
        while self._places and (new := _family(pid) - taken):
            for member in sorted(new):
                for directory in self.directories():
                    with suppress(OSError):  # it has ended
                        _write(f"{directory}/cgroup.procs", str(member))
            taken |= new

    def oom_kills(self) -> int:
        """How often the kernel has killed a process of the group for want of memory."""
        if MEMORY not in self._places:
            return 0
        place = self._places[MEMORY]
        file = place.base / self._name / ("memory.oom_control" if place.version == 1 else "memory.events")
        with suppress(OSError):
            pairs = (line.split() for line in file.read_text().splitlines())
            return sum(int(value) for key, value in pairs if key == "oom_kill")
        return 0


def kill_all(directory: Path) -> None:
    """KILL every process of a group."""
    with suppress(OSError):
        for pid in _members(directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _members(directory: Path) -> Sequence[int]:
    return [int(line) for line in (directory / "cgroup.procs").read_text().split()]


def _family(pid: int) -> set[int]:
    """A process and its descendants, as far as they are not orphans."""
    family, look = {pid}, [pid]
    while look:
        parent = look.pop()
        with suppress(OSError, ValueError):
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
            new = {int(child) for child in text.split()} - family
            family |= new
            look += new
    return family


def _write(path: str, text: str) -> None:
    """At once: a control file takes a value by one write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _removed(path: Path) -> bool:
    """Whether it is gone; a group goes once its last process has."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True

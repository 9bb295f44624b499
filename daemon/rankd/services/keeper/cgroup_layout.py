"""Where control groups of version 1 or 2 are, how limits are written to their files, and what the host permits us.

Sources: the kernel's cgroup-v1/memory.rst, sched-bwc.rst, pids.rst and cgroup-v2.rst, and proc(5) for mountinfo.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

PERIOD_US = 100_000
LEAST_QUOTA_US = 1_000
MEMORY, CPU, PIDS, CPUACCT, DEVICES = "memory", "cpu", "pids", "cpuacct", "devices"
IN_EVERY_GROUP = frozenset({CPUACCT, DEVICES})
"""What every version 2 group has, whatever controllers it has: it counts processor time, and takes programs."""
PROC = Path("/proc/self")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a job on this node; None means no limit. ``vcore`` is in thousandths of a core."""

    memory_bytes: int | None = None
    vcore: int | None = None
    processes: int | None = None


class Mount(NamedTuple):
    """A mounted hierarchy: mount point, root group, version, controllers."""

    point: str
    root: str
    version: int
    controllers: frozenset[str]


class Place(NamedTuple):
    """Where groups with a controller are made: their parent group, its version, and the hierarchy's mount point."""

    base: Path
    version: int
    top: Path


def tag_of(state: Path) -> str:
    """The name part that makes this state directory's control groups differ from others."""
    return blake2b(os.fsencode(state), digest_size=4).hexdigest()


def parse_mounts(text: str) -> list[Mount]:
    """The hierarchies in a ``/proc/self/mountinfo``. Version 2 lists no controllers there."""
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
    """A process's groups by controller, from a ``/proc/self/cgroup``. Version 2 is listed as the empty controller."""
    own = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    return own


def own_directory(mount: Mount, path: str) -> Path:
    """The directory of a group. A container sees its hierarchy only from its own root on."""
    inside = path.removeprefix(mount.root) if mount.root != "/" else path
    return Path(mount.point + "/" + inside.strip("/")) if inside.strip("/") else Path(mount.point)


def own_places(controller: str, proc: Path = PROC) -> Iterator[Place]:
    """This process's own groups that have a controller. Yields every version 2 group: a file lists its controllers.

    Raises:
        OSError: ``proc`` does not exist.
    """
    own = parse_own((proc / "cgroup").read_text())
    for mount in parse_mounts((proc / "mountinfo").read_text()):
        if mount.version == 1 and controller in mount.controllers:
            yield Place(own_directory(mount, own.get(controller, "/")), 1, Path(mount.point))
        elif mount.version == 2:
            yield Place(own_directory(mount, own.get("", "/")), 2, Path(mount.point))


def limit_files(version: int, limits: Limits) -> dict[str, list[tuple[str, str]]]:
    """The files and texts that set limits, by controller. Optional files come last."""
    files: dict[str, list[tuple[str, str]]] = {}
    if limits.memory_bytes:
        amount = str(limits.memory_bytes)
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if version == 1 else ("memory.max",)
        files[MEMORY] = [(name, amount) for name in names]
        files[MEMORY] += [("memory.swap.max", "0")] if version != 1 else []
    if limits.vcore:
        quota = max(LEAST_QUOTA_US, limits.vcore * PERIOD_US // 1000)
        files[CPU] = [("cpu.cfs_quota_us", str(quota))] if version == 1 else [("cpu.max", f"{quota} {PERIOD_US}")]
    if limits.processes:
        files[PIDS] = [("pids.max", str(limits.processes))]
    return files


def cpu_allowance(place: Place) -> int | None:
    """Thousandths of a core that a group may use, by its own quota and those of its parents; None without a quota."""
    return min((quota for path in _upwards(place) if (quota := _quota(path, place.version))), default=None)


def memory_allowance(place: Place) -> int | None:
    """Bytes that a group may use, by its own limit and those of its parents; None without a limit."""
    name = "memory.limit_in_bytes" if place.version == 1 else "memory.max"
    return min((limit for path in _upwards(place) if (limit := _number(path / name)) is not None), default=None)


def own_allowances(proc: Path = PROC) -> tuple[int | None, int | None]:
    """What this process's control groups permit: thousandths of a core, bytes of memory; None without a limit."""
    with suppress(OSError):
        cores = [quota for place in own_places(CPU, proc) if (quota := cpu_allowance(place))]
        memory = [limit for place in own_places(MEMORY, proc) if (limit := memory_allowance(place)) is not None]
        return min(cores, default=None), min(memory, default=None)
    return None, None


def _upwards(place: Place) -> Iterator[Path]:
    """The group and its visible parents."""
    path = place.base
    while path.is_relative_to(place.top):
        yield path
        path = path.parent


def _quota(directory: Path, version: int) -> int | None:
    with suppress(OSError, ValueError):
        if version == 1:
            quota, period = (int((directory / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        else:
            quota, period = map(int, (directory / "cpu.max").read_text().split())  # "max" raises ValueError
        return max(1, quota * 1000 // period) if quota > 0 else None
    return None


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
